// Head and tail of a stream that may never end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace agentmath::sandbox {

// Keeps the first and the last bytes of what it is fed and counts the rest. Memory stays below
// three times `keep_bytes` and one chunk.
class Capture {
 public:
  explicit Capture(std::size_t keep_bytes = 0);

  void Feed(std::string_view data);

  std::uint64_t total_bytes() const { return total_bytes_; }

  // Everything if it fitted; else head, a line that says how much is missing, and tail, both cut
  // at the borders of UTF-8 characters.
  std::string Text() const;

 private:
  std::uint64_t total_bytes_ = 0;
  std::size_t head_bytes_;
  std::size_t tail_bytes_;
  std::string head_;
  std::string tail_;
};

}  // namespace agentmath::sandbox
