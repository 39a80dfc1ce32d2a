// A zygote whose children run a handful of commands instead of Python: what the supervisor's tests
// start, so that they and the sanitizers need no interpreter.
#pragma once

namespace stand_in {

// Serves as a zygote on descriptor 3 until its supervisor is gone; does not return.
[[noreturn]] void RunZygote();

}  // namespace stand_in
