#include "loss/rows.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <thread>
#include <vector>

#include "loss/kernels.h"

namespace agentmath {
namespace {

// Logits below which another thread costs more than it brings.
constexpr std::int64_t kWorkPerThread = 1 << 18;

LossKernels Choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    return Avx512LossKernels();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Avx2LossKernels();
#endif
  return AnyLossKernels();
}

const LossKernels& Kernels() {
  static const LossKernels chosen = Choose();
  return chosen;
}

template <typename OneRow>
void ForEachRow(const LogitRows& shape, int threads, const OneRow& one_row) {
  const std::int64_t work = shape.rows * shape.vocab;
  const std::int64_t most = std::min<std::int64_t>(std::max(threads, 1), shape.rows);
  const std::int64_t parts =
      std::clamp<std::int64_t>(work / kWorkPerThread, 1, std::max<std::int64_t>(most, 1));
  const auto run = [&](std::int64_t part) {
    for (std::int64_t r = shape.rows * part / parts; r < shape.rows * (part + 1) / parts; ++r)
      one_row(r);
  };
  std::vector<std::thread> others;
  for (std::int64_t part = 1; part < parts; ++part) others.emplace_back(run, part);
  run(0);
  for (std::thread& other : others) other.join();
}

}  // namespace

void ReadRows(const LogitRows& shape, const float* logits, const std::int64_t* targets,
              const RowFigures& figures, int threads) {
  ForEachRow(shape, threads, [&](std::int64_t r) {
    const float* row = logits + r * shape.vocab;
    const RowSums sums = Kernels().read(row, shape.vocab, shape.inverse_temperature);
    const double log_sum = std::log(sums.sum);
    const bool is_sound = std::isfinite(sums.peak) && std::isfinite(log_sum);
    const float nothing = std::numeric_limits<float>::quiet_NaN();
    const float x = row[targets[r]] * shape.inverse_temperature;
    figures.peak[r] = is_sound ? sums.peak : nothing;
    figures.log_sum[r] = is_sound ? static_cast<float>(log_sum) : nothing;
    figures.logprob[r] = is_sound ? static_cast<float>((x - sums.peak) - log_sum) : nothing;
    if (figures.entropy != nullptr)
      figures.entropy[r] =
          is_sound ? static_cast<float>(log_sum - sums.weighted / sums.sum) : nothing;
  });
}

void WriteGradients(const LogitRows& shape, float* logits, const std::int64_t* targets,
                    const RowFigures& figures, const RowSlopes& slopes, int threads) {
  ForEachRow(shape, threads, [&](std::int64_t r) {
    float* row = logits + r * shape.vocab;
    const float a = slopes.by_logprob[r] * shape.inverse_temperature;
    const float b =
        slopes.by_entropy == nullptr ? 0.0f : slopes.by_entropy[r] * shape.inverse_temperature;
    if (a == 0.0f && b == 0.0f) {
      std::fill(row, row + shape.vocab, 0.0f);
      return;
    }
    // p (-a - b (log p + H)) everywhere, and a more at the target.
    const float offset = -a - (b == 0.0f ? 0.0f : b * figures.entropy[r]);
    Kernels().write(row, shape.vocab,
                    {shape.inverse_temperature, figures.peak[r], figures.log_sum[r], -b, offset});
    row[targets[r]] += a;
  });
}

}  // namespace agentmath
