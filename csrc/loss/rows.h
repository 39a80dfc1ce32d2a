// Rows of vocabulary logits in float32: what a loss needs of them, and its gradient in their place.
//
// Names in shapes: C rows of one chunk, V vocabulary.
#pragma once

#include <cstdint>

namespace agentmath {

// Logits [C, V], contiguous, before division by the temperature.
struct LogitRows {
  std::int64_t rows;          // C
  std::int64_t vocab;         // V, at least 1
  float inverse_temperature;  // multiplies every logit
};

// What one pass over a chunk finds, each [C]. With x = logits * inverse_temperature:
struct RowFigures {
  float* peak;     // max x
  float* log_sum;  // log sum exp(x - peak): kept apart, as their sum loses digits of a large peak
  float* logprob;  // x[target] - peak - log_sum
  float* entropy;  // of softmax(x), in nats; null when nobody asked
};

// A row that holds NaN, or no finite logit, has NaN figures. Rows are shared out among at most
// `threads` threads; no result depends on how many.
void ReadRows(const LogitRows& shape, const float* logits, const std::int64_t* targets,
              const RowFigures& figures, int threads);

// What a loss says about rows, each [C].
struct RowSlopes {
  const float* by_logprob;  // d loss / d log-prob of the target
  const float* by_entropy;  // d loss / d entropy, or null
};

// Writes d loss / d logits over the logits:
//   (a (onehot - p) - b p (log p + entropy)) * inverse_temperature
// with p = softmax(x), a and b the slopes. A row whose slopes are 0 becomes 0, whatever it holds.
void WriteGradients(const LogitRows& shape, float* logits, const std::int64_t* targets,
                    const RowFigures& figures, const RowSlopes& slopes, int threads);

}  // namespace agentmath
