#include "core/error.h"

#include <cerrno>
#include <cstring>

namespace agentmath {

Error::Error(const std::string& message, int error_number)
    : std::runtime_error(message), error_number_(error_number) {}

Error SystemError(const std::string& what) {
  const int number = errno;
  return Error(what + ": " + std::strerror(number) + " (errno " + std::to_string(number) + ")",
               number);
}

}  // namespace agentmath
