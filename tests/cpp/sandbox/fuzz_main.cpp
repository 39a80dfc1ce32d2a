// Entry for libFuzzer: the first byte chooses the parser, the rest is its input.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "sandbox/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr bool (*kAttempts[])(std::string_view) = {
      fuzz::TryReports, fuzz::TryNotice, fuzz::TryRequest, fuzz::TryGreeting, fuzz::TryEnd};
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  kAttempts[data[0] % std::size(kAttempts)](bytes);
  return 0;
}
