#include "decode/operators.h"

#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

#include "decode/kernels.h"

namespace agentmath {
namespace {

// Multiply-adds below which another thread costs more than it brings.
constexpr std::int64_t kWorkPerThread = 4 << 20;

DecodeKernels Choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Avx2Kernels();
#endif
  return AnyKernels();
}

const DecodeKernels& Kernels() {
  static const DecodeKernels chosen = Choose();
  return chosen;
}

// Ends of consecutive runs of rows whose contexts add up to about the same.
std::vector<std::int64_t> Shares(const std::int64_t* contexts, std::int64_t rows,
                                 std::int64_t total, std::int64_t parts) {
  std::vector<std::int64_t> ends;
  std::int64_t seen = 0;
  for (std::int64_t a = 0; a < rows; ++a) {
    seen += contexts[a];
    if (seen * parts >= total * static_cast<std::int64_t>(ends.size() + 1)) ends.push_back(a + 1);
  }
  return ends;
}

}  // namespace

bool SupportsWidth(std::int64_t width) { return width > 0 && width % 8 == 0; }

bool SupportsHeadSize(std::int64_t head_size) {
  constexpr std::int64_t known[] = {16, 32, 64, 96, 128};
  return std::find(std::begin(known), std::end(known), head_size) != std::end(known);
}

void RmsNorm(const float* x, const float* weight, float eps, std::int64_t tokens,
             std::int64_t width, float* out) {
  Kernels().rms_norm(x, weight, eps, tokens, width, out);
}

void NormAndRotate(const HeadsShape& shape, const float* weight, float eps, const float* cos,
                   const float* sin, float* heads) {
  Kernels().norm_and_rotate(shape, weight, eps, cos, sin, heads);
}

void SwiGlu(const float* up, std::int64_t count, float* gate) { Kernels().swiglu(up, count, gate); }

void AttendOneToken(const OneTokenShape& shape, const float* query, const float* keys,
                    const float* values, const std::int64_t* contexts, float* out, int threads) {
  if (shape.rows == 0) return;
  std::int64_t total = 0, longest = 0;
  for (std::int64_t a = 0; a < shape.rows; ++a) {
    total += contexts[a];
    longest = std::max(longest, contexts[a]);
  }
  const std::int64_t work = total * shape.query_heads * shape.head_size;
  const std::int64_t parts =
      std::clamp<std::int64_t>(work / kWorkPerThread, 1, std::max(threads, 1));
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> scores(static_cast<std::size_t>(longest) + 8);
    Kernels().attend(shape, query, keys, values, contexts, out, begin, end, scores.data());
  };
  const std::vector<std::int64_t> ends = Shares(contexts, shape.rows, total, parts);
  std::vector<std::thread> others;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
    others.emplace_back(run, begin, ends[i]);
    begin = ends[i];
  }
  run(begin, ends.back());
  for (std::thread& other : others) other.join();
}

}  // namespace agentmath
