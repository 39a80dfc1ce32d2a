#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "check.h"
#include "loss/kernels.h"
#include "loss/rows.h"

namespace {

using agentmath::LogitRows;
using agentmath::LossKernels;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Kernel tables that this processor can run.
std::vector<LossKernels> Tables() {
  std::vector<LossKernels> tables = {agentmath::AnyLossKernels()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    tables.push_back(agentmath::Avx2LossKernels());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    tables.push_back(agentmath::Avx512LossKernels());
#endif
  return tables;
}

std::vector<float> Draw(std::int64_t count, float scale, float offset) {
  std::mt19937 generator(static_cast<unsigned>(count));
  std::normal_distribution<float> normal(offset, scale);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

struct ByHand {
  double log_total, entropy;
};

ByHand Read(const std::vector<float>& row, double scale) {
  double peak = -1e300, total = 0.0, mean = 0.0;
  for (float x : row) peak = std::max(peak, x * scale);
  for (float x : row) total += std::exp(x * scale - peak);
  for (float x : row) {
    const double p = std::exp(x * scale - peak) / total;
    if (p > 0) mean += p * (x * scale - peak);
  }
  return {peak + std::log(total), std::log(total) - mean};
}

bool IsClose(double a, double b, double tolerance) { return std::fabs(a - b) <= tolerance; }

TEST(every_kernel_reads_what_double_arithmetic_reads) {
  for (const LossKernels& kernels : Tables()) {
    for (std::int64_t vocab : {1, 2, 15, 16, 17, 2047, 2048, 2049, 5003}) {
      for (float offset : {0.0f, -300.0f, 1000.0f}) {
        const std::vector<float> row = Draw(vocab, 3.0f, offset);
        const agentmath::RowSums sums = kernels.read(row.data(), vocab, 0.7f);
        const ByHand expected = Read(row, 0.7f);
        CHECK(IsClose(sums.peak + std::log(sums.sum), expected.log_total, 1e-4));
        CHECK(IsClose(std::log(sums.sum) - sums.weighted / sums.sum, expected.entropy, 2e-4));
      }
    }
  }
}

TEST(minus_infinity_has_no_weight_wherever_it_stands) {
  for (const LossKernels& kernels : Tables()) {
    for (std::int64_t finite : {0, 2047, 2048, 4999}) {
      std::vector<float> row(5000, -kInfinity);
      row[static_cast<std::size_t>(finite)] = -3.0f;
      const agentmath::RowSums sums = kernels.read(row.data(), 5000, 1.0f);
      CHECK_EQUAL(sums.peak, -3.0f);
      CHECK(IsClose(sums.sum, 1.0, 1e-6));
      CHECK(IsClose(sums.weighted, 0.0, 1e-6));
    }
  }
}

struct Chunk {
  std::vector<float> logits, peak, log_sum, logprob, entropy;
  std::vector<std::int64_t> targets;
  LogitRows shape;

  Chunk(std::vector<float> values, std::vector<std::int64_t> ids, float inverse_temperature)
      : logits(std::move(values)), targets(std::move(ids)) {
    const std::size_t rows = targets.size();
    shape = {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(logits.size() / rows),
             inverse_temperature};
    for (std::vector<float>* figure : {&peak, &log_sum, &logprob, &entropy}) figure->resize(rows);
  }

  agentmath::RowFigures Figures() {
    return {peak.data(), log_sum.data(), logprob.data(), entropy.data()};
  }

  void ReadAll(int threads) {
    agentmath::ReadRows(shape, logits.data(), targets.data(), Figures(), threads);
  }

  void WriteAll(const std::vector<float>& a, const std::vector<float>& b, int threads) {
    agentmath::WriteGradients(shape, logits.data(), targets.data(), Figures(), {a.data(), b.data()},
                              threads);
  }
};

TEST(the_gradient_is_that_of_a_loss_of_logprob_and_entropy) {
  constexpr double kStep = 1e-5, kA = 0.8, kB = -0.3, kScale = 0.5;
  const std::vector<float> row = Draw(19, 2.0f, 0.0f);
  Chunk chunk(row, {7}, 0.5f);
  chunk.ReadAll(1);
  chunk.WriteAll({static_cast<float>(kA)}, {static_cast<float>(kB)}, 1);
  std::vector<double> x(row.begin(), row.end());
  const auto loss = [&](const std::vector<double>& at) {
    double peak = -1e300, total = 0.0, mean = 0.0;
    for (double v : at) peak = std::max(peak, v * kScale);
    for (double v : at) total += std::exp(v * kScale - peak);
    for (double v : at) mean += std::exp(v * kScale - peak) / total * (v * kScale - peak);
    return kA * (at[7] * kScale - peak - std::log(total)) + kB * (std::log(total) - mean);
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::vector<double> above = x, below = x;
    above[i] += kStep;
    below[i] -= kStep;
    CHECK(IsClose(chunk.logits[i], (loss(above) - loss(below)) / (2 * kStep), 2e-6));
  }
}

TEST(unsound_rows_have_nan_figures_and_no_gradient_without_a_slope) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> logits = {1, 2,         nan, -kInfinity, -kInfinity, -kInfinity,
                               1, kInfinity, 2,   1,          2,          3};
  Chunk chunk(logits, {0, 1, 2, 2}, 1.0f);
  chunk.ReadAll(1);
  for (std::size_t r : {0, 1, 2}) {
    CHECK(std::isnan(chunk.logprob[r]) && std::isnan(chunk.entropy[r]));
  }
  CHECK(IsClose(chunk.logprob[3], -0.4076059644, 1e-6));
  chunk.WriteAll({0, 0, 0, 1}, {0, 0, 0, 0}, 1);
  for (std::size_t i = 0; i < 9; ++i) CHECK_EQUAL(chunk.logits[i], 0.0f);
  CHECK(IsClose(chunk.logits[11], 1 - std::exp(-0.4076059644), 1e-6));
}

TEST(results_do_not_depend_on_the_number_of_threads) {
  const std::int64_t vocab = 70001, rows = 13;
  std::vector<std::int64_t> targets;
  for (std::int64_t r = 0; r < rows; ++r) targets.push_back(r * 5000);
  Chunk one(Draw(rows * vocab, 4.0f, 0.0f), targets, 1.3f), many = one;
  const std::vector<float> a(rows, 0.25f), b(rows, 0.1f);
  one.ReadAll(1);
  many.ReadAll(5);
  CHECK(one.logprob == many.logprob && one.entropy == many.entropy);
  one.WriteAll(a, b, 1);
  many.WriteAll(a, b, 5);
  CHECK(one.logits == many.logits);
}

}  // namespace
