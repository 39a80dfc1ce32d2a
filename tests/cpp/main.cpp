// Runs all registered cases, or those whose name contains the first argument.
#include <cstdio>
#include <exception>
#include <string>

#include "check.h"
#include "sandbox/stand_in.h"

int main(int argc, char** argv) {
  const std::string wanted = argc > 1 ? argv[1] : "";
  if (wanted == "--zygote") stand_in::RunZygote();
  int passed = 0;
  int failed = 0;
  for (const check::Case& test : check::Cases()) {
    if (test.name.find(wanted) == std::string::npos) continue;
    try {
      test.body();
      ++passed;
    } catch (const std::exception& error) {
      ++failed;
      std::printf("FAILED %s\n  %s\n", test.name.c_str(), error.what());
    }
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}
