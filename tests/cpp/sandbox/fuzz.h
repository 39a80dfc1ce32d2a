// What must hold for any bytes that another process may send, and the making of bytes that are
// nearly right. Used by the tests with a fixed seed, and by libFuzzer where the compiler has it.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace fuzz {

// Each throws when bytes are taken for something that they are not. They return whether the bytes
// were accepted.
bool TryReports(std::string_view bytes);  // a child's stream
bool TryNotice(std::string_view bytes);
bool TryRequest(std::string_view bytes);
bool TryGreeting(std::string_view bytes);
bool TryEnd(std::string_view bytes);  // a notice's exit record and the report that came before it

// Valid messages of all sorts, to begin from.
std::vector<std::string> ReportSeeds();
std::vector<std::string> NoticeSeeds();
std::vector<std::string> RequestSeeds();
std::vector<std::string> GreetingSeeds();

// One to six changes, of bytes, of numbers where lengths and kinds stand, of whole stretches.
std::string Mutate(const std::string& seed, const std::vector<std::string>& others,
                   std::mt19937* random);

}  // namespace fuzz
