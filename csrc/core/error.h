// The one error type of the C++ core.
#pragma once

#include <stdexcept>
#include <string>

namespace agentmath {

// What happened, and for a failed system call its errno (0 otherwise).
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, int error_number = 0);

  int error_number() const { return error_number_; }

 private:
  int error_number_;
};

// Error with the text "WHAT: STRERROR (errno N)" made from the current errno.
Error SystemError(const std::string& what);

}  // namespace agentmath
