#include "check.h"
#include "sandbox/capture.h"

using agentmath::sandbox::Capture;

namespace {

Capture Fed(std::size_t keep, const std::string& data, std::size_t chunk) {
  Capture capture(keep);
  for (std::size_t at = 0; at < data.size(); at += chunk) capture.Feed(data.substr(at, chunk));
  return capture;
}

}  // namespace

TEST(what_fits_is_kept_whole_however_it_comes) {
  for (const std::size_t chunk : {1u, 2u, 3u, 100u}) {
    CHECK_EQUAL(Fed(10, "0123456789", chunk).Text(), "0123456789");
  }
}

TEST(what_does_not_fit_keeps_head_and_tail_and_the_count) {
  for (const std::size_t chunk : {1u, 2u, 7u, 100u}) {
    const Capture capture = Fed(10, "0123456789abcdefghij", chunk);
    CHECK_EQUAL(capture.Text(), "01234\n[... 10 bytes cut ...]\nfghij");
    CHECK_EQUAL(capture.total_bytes(), 20u);
  }
}

TEST(nothing_is_kept_when_nothing_may_be) {
  CHECK_EQUAL(Fed(0, "abc", 1).Text(), "\n[... 3 bytes cut ...]\n");
  CHECK_EQUAL(Capture(0).Text(), "");
}

TEST(an_odd_byte_goes_to_the_head) {
  CHECK_EQUAL(Fed(3, "abcdef", 2).Text(), "ab\n[... 3 bytes cut ...]\nf");
}

TEST(characters_are_not_cut_in_two) {
  // Head of 5 bytes ends inside the second 3-byte character, tail of 5 begins inside another.
  const std::string euro = "\xE2\x82\xAC";
  const std::string text = Fed(10, euro + euro + "....." + euro + euro, 4).Text();
  CHECK_EQUAL(text, euro + "\n[... 7 bytes cut ...]\n" + euro);
}

TEST(bytes_that_are_no_characters_are_kept) {
  const std::string raw = "\xFF\xFE\x80\x80\x80\x80\x80\x80\x80\x80";
  CHECK_EQUAL(Fed(10, raw, 3).Text(), raw);
}
