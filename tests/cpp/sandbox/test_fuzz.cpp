#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "sandbox/fuzz.h"

namespace {

constexpr int kRounds = 60000;

// Most mutants must be refused and some must not, or the mutations would test nothing.
void TryMutants(bool (*attempt)(std::string_view), const std::vector<std::string>& seeds) {
  std::mt19937 random(20240611);
  int num_accepted = 0;
  for (const std::string& seed : seeds) attempt(seed);
  for (int round = 0; round < kRounds; ++round) {
    const std::string& seed = seeds[random() % seeds.size()];
    num_accepted += attempt(fuzz::Mutate(seed, seeds, &random));
  }
  CHECK(num_accepted > kRounds / 1000);
  CHECK(num_accepted < kRounds);
}

// Each record followed by each report.
std::vector<std::string> EndSeeds() {
  std::vector<std::string> seeds;
  for (const std::string& notice : fuzz::NoticeSeeds()) {
    for (const std::string& report : fuzz::ReportSeeds()) {
      if (report.size() < 1000) seeds.push_back(notice + report);
    }
  }
  return seeds;
}

}  // namespace

TEST(no_stream_of_a_child_is_read_as_what_it_is_not) {
  TryMutants(fuzz::TryReports, fuzz::ReportSeeds());
}

TEST(no_message_of_a_zygote_is_read_as_what_it_is_not) {
  TryMutants(fuzz::TryNotice, fuzz::NoticeSeeds());
  TryMutants(fuzz::TryGreeting, fuzz::GreetingSeeds());
}

TEST(no_message_of_a_supervisor_is_read_as_what_it_is_not) {
  TryMutants(fuzz::TryRequest, fuzz::RequestSeeds());
}

TEST(no_exit_record_and_no_report_make_a_verdict_that_contradicts_the_kernel) {
  TryMutants(fuzz::TryEnd, EndSeeds());
}
