#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "check.h"
#include "decode/kernels.h"
#include "decode/operators.h"

namespace {

using agentmath::DecodeKernels;
using agentmath::HeadsShape;
using agentmath::OneTokenShape;

std::vector<float> Draw(std::size_t count, float scale = 1.0f) {
  std::mt19937 generator(static_cast<unsigned>(count));
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

// softmax(scale * q . k) . v for one head, in double.
std::vector<double> AttendByHand(const OneTokenShape& s, const std::vector<float>& query,
                                 const std::vector<float>& keys, const std::vector<float>& values,
                                 std::int64_t a, std::int64_t q, std::int64_t context) {
  const std::int64_t width = s.key_heads * s.head_size, group = s.query_heads / s.key_heads;
  const auto at = [&](const std::vector<float>& cache, std::int64_t t, std::int64_t d) {
    return static_cast<double>(cache[(a * s.positions + t) * width + q / group * s.head_size + d]);
  };
  std::vector<double> scores(context), out(s.head_size, 0.0);
  double best = -1e300, total = 0.0;
  for (std::int64_t t = 0; t < context; ++t) {
    for (std::int64_t d = 0; d < s.head_size; ++d) {
      scores[t] += s.scale * at(keys, t, d) * query[(a * s.query_heads + q) * s.head_size + d];
    }
    best = std::max(best, scores[t]);
  }
  for (double& score : scores) total += score = std::exp(score - best);
  for (std::int64_t t = 0; t < context; ++t) {
    for (std::int64_t d = 0; d < s.head_size; ++d) out[d] += scores[t] / total * at(values, t, d);
  }
  return out;
}

std::vector<float> Attend(const OneTokenShape& s, const std::vector<float>& query,
                          const std::vector<float>& cache,
                          const std::vector<std::int64_t>& contexts, int threads) {
  std::vector<float> out(query.size());
  agentmath::AttendOneToken(s, query.data(), cache.data(), cache.data(), contexts.data(),
                            out.data(), threads);
  return out;
}

// Kernel tables that this processor can run.
std::vector<DecodeKernels> Tables() {
  std::vector<DecodeKernels> tables = {agentmath::AnyKernels()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    tables.push_back(agentmath::Avx2Kernels());
#endif
  return tables;
}

}  // namespace

TEST(attention_of_one_token_is_the_written_out_sum) {
  for (const std::int64_t size : {16, 32, 64, 96, 128}) {
    const OneTokenShape s{3, 4, 2, size, 40, 0.25f};
    const std::vector<float> query = Draw(s.rows * s.query_heads * size);
    const std::vector<float> keys = Draw(5 * s.positions * s.key_heads * size),
                             values = Draw(keys.size(), 2.0f);
    const std::vector<std::int64_t> contexts = {1, 8, 37};
    for (const DecodeKernels& kernels : Tables()) {
      std::vector<float> out(query.size()), scores(48);
      kernels.attend(s, query.data(), keys.data(), values.data(), contexts.data(), out.data(), 0, 3,
                     scores.data());
      for (std::int64_t a = 0; a < s.rows; ++a) {
        for (std::int64_t q = 0; q < s.query_heads; ++q) {
          const std::vector<double> expected =
              AttendByHand(s, query, keys, values, a, q, contexts[a]);
          for (std::int64_t d = 0; d < size; ++d) {
            CHECK(std::fabs(out[(a * s.query_heads + q) * size + d] - expected[d]) < 1e-5);
          }
        }
      }
    }
  }
}

TEST(any_number_of_threads_gives_the_same_bits) {
  const OneTokenShape s{33, 8, 2, 64, 600, 0.125f};
  const std::vector<float> query = Draw(s.rows * 8 * 64), cache = Draw(s.rows * s.positions * 128);
  std::vector<std::int64_t> contexts(s.rows);
  for (std::int64_t a = 0; a < s.rows; ++a) contexts[a] = 1 + a * 597 % 600;
  const std::vector<float> one = Attend(s, query, cache, contexts, 1);
  for (const int threads : {0, 2, 5, 100}) CHECK(Attend(s, query, cache, contexts, threads) == one);
}

TEST(no_rows_are_no_work) {
  const OneTokenShape s{0, 2, 1, 16, 4, 1.0f};
  agentmath::AttendOneToken(s, nullptr, nullptr, nullptr, nullptr, nullptr, 4);
}

TEST(the_norm_divides_by_the_root_of_the_mean_square) {
  const std::vector<float> x = Draw(5 * 24, 3.0f), weight = Draw(24);
  for (const DecodeKernels& kernels : Tables()) {
    std::vector<float> out(x.size());
    kernels.rms_norm(x.data(), weight.data(), 1e-6f, 5, 24, out.data());
    for (int t = 0; t < 5; ++t) {
      double mean = 0.0;
      for (int i = 0; i < 24; ++i) mean += static_cast<double>(x[t * 24 + i]) * x[t * 24 + i] / 24;
      for (int i = 0; i < 24; ++i) {
        CHECK(std::fabs(out[t * 24 + i] - weight[i] * x[t * 24 + i] / std::sqrt(mean + 1e-6)) <
              1e-5);
      }
    }
  }
}

TEST(heads_are_normalised_and_then_turned) {
  const HeadsShape shape{2, 3, 16};
  const std::vector<float> x = Draw(2 * 3 * 16), weight = Draw(16), cos = Draw(2 * 16),
                           sin = Draw(2 * 16, 2.0f);
  for (const DecodeKernels& kernels : Tables()) {
    std::vector<float> out = x, normed(x.size());
    kernels.rms_norm(x.data(), weight.data(), 1e-6f, 6, 16, normed.data());
    kernels.norm_and_rotate(shape, weight.data(), 1e-6f, cos.data(), sin.data(), out.data());
    for (int i = 0; i < 96; ++i) {
      const int t = i / 48, d = i % 16, other = d < 8 ? i + 8 : i - 8;
      CHECK(std::fabs(out[i] - (normed[i] * cos[t * 16 + d] + normed[other] * sin[t * 16 + d])) <
            1e-5);
    }
  }
}

TEST(swiglu_holds_from_one_end_of_the_range_to_the_other) {
  const std::vector<float> gate = {-3e38f, -100.0f, -87.0f, -1.0f, -0.0f, 0.5f, 88.0f, 3e38f};
  const std::vector<float> up(8, 1.0f);
  for (const DecodeKernels& kernels : Tables()) {
    std::vector<float> out = gate;
    kernels.swiglu(up.data(), 8, out.data());
    for (int i = 0; i < 8; ++i) {
      const double g = gate[i], expected = g / (1.0 + std::exp(-g));
      CHECK(std::fabs(out[i] - expected) <= 1e-6 * std::max(1.0, std::fabs(expected)));
    }
  }
}

TEST(only_whole_vectors_are_supported) {
  CHECK(agentmath::SupportsWidth(8));
  CHECK(!agentmath::SupportsWidth(12));
  CHECK(!agentmath::SupportsWidth(0));
  CHECK(agentmath::SupportsHeadSize(96));
  CHECK(!agentmath::SupportsHeadSize(48));
}
