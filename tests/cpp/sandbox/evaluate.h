// Runs a seccomp program as the kernel would, for tests.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

inline std::uint32_t Evaluate(const std::vector<sock_filter>& program, const seccomp_data& data) {
  std::uint32_t accumulator = 0;
  for (std::size_t at = 0; at < program.size(); ++at) {
    const sock_filter& one = program[at];
    switch (one.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        if (one.k % 4 != 0 || one.k + 4 > sizeof(data))
          throw std::runtime_error("load out of range");
        std::memcpy(&accumulator, reinterpret_cast<const char*>(&data) + one.k, 4);
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        accumulator &= one.k;
        break;
      case BPF_JMP | BPF_JA:
        at += one.k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += accumulator == one.k ? one.jt : one.jf;
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        at += accumulator >= one.k ? one.jt : one.jf;
        break;
      case BPF_JMP | BPF_JGT | BPF_K:
        at += accumulator > one.k ? one.jt : one.jf;
        break;
      case BPF_RET | BPF_K:
        return one.k;
      default:
        throw std::runtime_error("an instruction that no filter of ours has");
    }
  }
  throw std::runtime_error("ran off the end of the program");
}

inline seccomp_data Call(std::uint32_t arch, long number,
                         std::vector<std::uint64_t> arguments = {}) {
  seccomp_data data{};
  data.arch = arch;
  data.nr = static_cast<int>(number);
  for (std::size_t i = 0; i < arguments.size(); ++i) data.args[i] = arguments[i];
  return data;
}
