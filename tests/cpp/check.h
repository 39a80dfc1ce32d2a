// Test cases register themselves; CHECK reports file, line and condition and ends the case.
#pragma once

#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace check {

struct Case {
  std::string name;
  std::function<void()> body;
};

inline std::vector<Case>& Cases() {
  static std::vector<Case> cases;
  return cases;
}

struct Register {
  Register(std::string name, std::function<void()> body) {
    Cases().push_back({std::move(name), std::move(body)});
  }
};

[[noreturn]] inline void Fail(const char* file, int line, const std::string& text) {
  throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + text);
}

template <typename A, typename B>
void Equal(const A& a, const B& b, const char* file, int line, const char* text) {
  if (a == b) return;
  std::ostringstream message;
  message << text << " (" << a << " != " << b << ")";
  Fail(file, line, message.str());
}

}  // namespace check

#define TEST(name)                                           \
  static void name();                                        \
  static const check::Register register_##name(#name, name); \
  static void name()

#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition)) check::Fail(__FILE__, __LINE__, #condition); \
  } while (false)

#define CHECK_EQUAL(a, b) check::Equal((a), (b), __FILE__, __LINE__, #a " == " #b)

#define CHECK_THROWS(type, expression)                                              \
  do {                                                                              \
    bool thrown = false;                                                            \
    try {                                                                           \
      (void)(expression);                                                           \
    } catch (const type&) {                                                         \
      thrown = true;                                                                \
    }                                                                               \
    if (!thrown) check::Fail(__FILE__, __LINE__, "no " #type " from " #expression); \
  } while (false)
