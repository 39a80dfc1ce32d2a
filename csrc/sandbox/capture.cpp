#include "sandbox/capture.h"

#include <algorithm>

namespace agentmath::sandbox {
namespace {

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// How many bytes at the front belong to a character that began before them.
std::size_t ContinuationBytes(std::string_view data) {
  const std::size_t most = std::min<std::size_t>(3, data.size());
  for (std::size_t count = 0; count < most; ++count) {
    if (!IsContinuation(data[count])) return count;
  }
  return most;
}

std::size_t CharacterBytes(unsigned char first) {
  return first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
}

// Length of `data` without a character that is cut at its end.
std::size_t WholeCharacters(std::string_view data) {
  const std::size_t most = std::min<std::size_t>(3, data.size());
  for (std::size_t back = 1; back <= most; ++back) {
    const char byte = data[data.size() - back];
    if (IsContinuation(byte)) continue;
    const bool is_cut = CharacterBytes(static_cast<unsigned char>(byte)) > back;
    return is_cut ? data.size() - back : data.size();
  }
  return data.size();
}

}  // namespace

Capture::Capture(std::size_t keep_bytes)
    : head_bytes_(keep_bytes - keep_bytes / 2), tail_bytes_(keep_bytes / 2) {}

void Capture::Feed(std::string_view data) {
  total_bytes_ += data.size();
  const std::size_t room = head_bytes_ - head_.size();
  head_.append(data.substr(0, room));
  data.remove_prefix(std::min(room, data.size()));
  if (data.empty()) return;
  tail_.append(data.substr(data.size() - std::min(data.size(), tail_bytes_)));
  if (tail_.size() > 2 * tail_bytes_) tail_.erase(0, tail_.size() - tail_bytes_);
}

std::string Capture::Text() const {
  std::string_view tail = tail_;
  tail.remove_prefix(tail.size() - std::min(tail.size(), tail_bytes_));
  const std::uint64_t num_cut = total_bytes_ - head_.size() - tail.size();
  if (num_cut == 0) return head_ + std::string(tail);
  const std::string_view head = std::string_view(head_).substr(0, WholeCharacters(head_));
  tail.remove_prefix(ContinuationBytes(tail));
  std::string text(head);
  text += "\n[... " + std::to_string(num_cut) + " bytes cut ...]\n";
  text += tail;
  return text;
}

}  // namespace agentmath::sandbox
