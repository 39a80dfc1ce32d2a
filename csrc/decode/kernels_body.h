// The arithmetic. Everything lies in an unnamed namespace: each including file gets its own copy
// for its instruction set.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/vector.h"
#include "decode/kernels.h"

namespace agentmath {
namespace {

static_assert(kLanes == 8, "SumEach shuffles eight lanes");

#if defined(__clang__)
#define AGENTMATH_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define AGENTMATH_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, Ints{__VA_ARGS__})
#endif

// Sums of eight vectors, one in each lane.
inline Floats SumEach(const Floats* a) {
  Floats pairs[4];
  for (int i = 0; i < 4; ++i) {
    pairs[i] = AGENTMATH_SHUFFLE(a[2 * i], a[2 * i + 1], 0, 8, 2, 10, 4, 12, 6, 14) +
               AGENTMATH_SHUFFLE(a[2 * i], a[2 * i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  Floats fours[2];
  for (int i = 0; i < 2; ++i) {
    fours[i] = AGENTMATH_SHUFFLE(pairs[2 * i], pairs[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13) +
               AGENTMATH_SHUFFLE(pairs[2 * i], pairs[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  return AGENTMATH_SHUFFLE(fours[0], fours[1], 0, 1, 2, 3, 8, 9, 10, 11) +
         AGENTMATH_SHUFFLE(fours[0], fours[1], 4, 5, 6, 7, 12, 13, 14, 15);
}

inline float InverseRms(const float* x, std::int64_t width, float eps) {
  Floats squares = All(0.0f);
  for (std::int64_t i = 0; i < width; i += kLanes) squares += Load(x + i) * Load(x + i);
  return 1.0f / std::sqrt(Sum(squares) / static_cast<float>(width) + eps);
}

void RmsNormBody(const float* x, const float* weight, float eps, std::int64_t tokens,
                 std::int64_t width, float* out) {
  for (std::int64_t t = 0; t < tokens; ++t, x += width, out += width) {
    const Floats scale = All(InverseRms(x, width, eps));
    for (std::int64_t i = 0; i < width; i += kLanes)
      Store(out + i, Load(x + i) * scale * Load(weight + i));
  }
}

// Half-split rotation of a head whose halves are multiples of 8 wide.
inline void Rotate(float* x, std::int64_t size, const float* cos, const float* sin) {
  const std::int64_t half = size / 2;
  for (std::int64_t i = 0; i < half; i += kLanes) {
    const Floats a = Load(x + i), b = Load(x + half + i);
    Store(x + i, a * Load(cos + i) + b * Load(sin + i));
    Store(x + half + i, b * Load(cos + half + i) + a * Load(sin + half + i));
  }
}

void NormAndRotateBody(const HeadsShape& shape, const float* weight, float eps, const float* cos,
                       const float* sin, float* heads) {
  const std::int64_t size = shape.head_size;
  for (std::int64_t t = 0; t < shape.tokens; ++t, cos += size, sin += size) {
    for (std::int64_t h = 0; h < shape.heads; ++h, heads += size) {
      if (weight != nullptr) RmsNormBody(heads, weight, eps, 1, size, heads);
      Rotate(heads, size, cos, sin);
    }
  }
}

void SwiGluBody(const float* up, std::int64_t count, float* gate) {
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const Floats g = Load(gate + i), zero = All(0.0f), one = All(1.0f);
    const Floats small = ExpNegative(g < zero ? g : -g);
    const Floats sigmoid = (g < zero ? small : one) / (one + small);
    Store(gate + i, g * sigmoid * Load(up + i));
  }
}

template <int D>
inline Floats Dot(const Floats* query, const float* key) {
  Floats sum = query[0] * Load(key);
  for (int d = 1; d < D / kLanes; ++d) sum += query[d] * Load(key + d * kLanes);
  return sum;
}

// Scores of all tokens into `scores`; returns the largest.
template <int D>
inline float Scores(const Floats* query, const float* keys, std::int64_t tokens,
                    std::int64_t stride, float* scores) {
  std::int64_t t = 0;
  for (; t + kLanes <= tokens; t += kLanes) {
    Floats partial[kLanes];
    for (int i = 0; i < kLanes; ++i) partial[i] = Dot<D>(query, keys + (t + i) * stride);
    Store(scores + t, SumEach(partial));
  }
  for (; t < tokens; ++t) scores[t] = Sum(Dot<D>(query, keys + t * stride));
  return *std::max_element(scores, scores + tokens);
}

template <int D>
inline void AttendHead(const float* query, const float* keys, const float* values,
                       std::int64_t tokens, std::int64_t stride, float scale, float* scores,
                       float* out) {
  Floats scaled[D / kLanes], mixed[D / kLanes];
  for (int d = 0; d < D / kLanes; ++d) {
    scaled[d] = Load(query + d * kLanes) * All(scale);
    mixed[d] = All(0.0f);
  }
  const float best = Scores<D>(scaled, keys, tokens, stride, scores);
  const std::int64_t padded = (tokens + kLanes - 1) / kLanes * kLanes;
  std::fill(scores + tokens, scores + padded, best);
  for (std::int64_t t = 0; t < padded; t += kLanes)
    Store(scores + t, ExpNegative(Load(scores + t) - All(best)));
  std::fill(scores + tokens, scores + padded, 0.0f);
  Floats total = All(0.0f);
  for (std::int64_t t = 0; t < padded; t += kLanes) total += Load(scores + t);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const Floats weight = All(scores[t]);
    for (int d = 0; d < D / kLanes; ++d)
      mixed[d] += weight * Load(values + t * stride + d * kLanes);
  }
  const Floats norm = All(1.0f / Sum(total));
  for (int d = 0; d < D / kLanes; ++d) Store(out + d * kLanes, mixed[d] * norm);
}

template <int D>
void AttendRows(const OneTokenShape& s, const float* query, const float* keys, const float* values,
                const std::int64_t* contexts, float* out, std::int64_t begin, std::int64_t end,
                float* scores) {
  const std::int64_t group = s.query_heads / s.key_heads, stride = s.key_heads * D;
  for (std::int64_t a = begin; a < end; ++a) {
    for (std::int64_t q = 0; q < s.query_heads; ++q) {
      const std::int64_t at = a * s.positions * stride + q / group * D,
                         head = (a * s.query_heads + q) * D;
      AttendHead<D>(query + head, keys + at, values + at, contexts[a], stride, s.scale, scores,
                    out + head);
    }
  }
}

void AttendBody(const OneTokenShape& s, const float* query, const float* keys, const float* values,
                const std::int64_t* contexts, float* out, std::int64_t begin, std::int64_t end,
                float* scores) {
  switch (s.head_size) {
    case 16:
      return AttendRows<16>(s, query, keys, values, contexts, out, begin, end, scores);
    case 32:
      return AttendRows<32>(s, query, keys, values, contexts, out, begin, end, scores);
    case 64:
      return AttendRows<64>(s, query, keys, values, contexts, out, begin, end, scores);
    case 96:
      return AttendRows<96>(s, query, keys, values, contexts, out, begin, end, scores);
    case 128:
      return AttendRows<128>(s, query, keys, values, contexts, out, begin, end, scores);
  }
}

constexpr DecodeKernels kKernels = {&RmsNormBody, &NormAndRotateBody, &SwiGluBody, &AttendBody};

}  // namespace
}  // namespace agentmath
