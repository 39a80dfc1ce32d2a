// The small operators of a decoding step in float32: where a step has a hundred rows or fewer,
// calling a tensor library for each of them costs more than their arithmetic, and attention falls
// into products too small for a BLAS.
//
// Names in shapes: T tokens, H width, A rows that decode, Q query heads, K key heads (Q a multiple
// of K), D head size, S cache slots, C positions of a slot.
#pragma once

#include <cstdint>

namespace agentmath {

// True for widths and head sizes that the operators below take: multiples of 8; for attention 16,
// 32, 64, 96 or 128.
bool SupportsWidth(std::int64_t width);
bool SupportsHeadSize(std::int64_t head_size);

// out[t] = weight * x[t] / sqrt(mean(x[t]^2) + eps); x and out are [T, H], weight [H] (Zhang and
// Sennrich, "Root Mean Square Layer Normalization", section 4).
void RmsNorm(const float* x, const float* weight, float eps, std::int64_t tokens,
             std::int64_t width, float* out);

// Heads [T, heads, D] in place: normalised as above with weight [D] unless it is null, then rotated
// by position in the half-split order. cos and sin are [T, D]; the sign of the rotated first half
// is already in sin.
struct HeadsShape {
  std::int64_t tokens;
  std::int64_t heads;
  std::int64_t head_size;
};
void NormAndRotate(const HeadsShape& shape, const float* weight, float eps, const float* cos,
                   const float* sin, float* heads);

// gate[i] = silu(gate[i]) * up[i] for count elements.
void SwiGlu(const float* up, std::int64_t count, float* gate);

// Row i lies in slot i.
struct OneTokenShape {
  std::int64_t rows;         // A
  std::int64_t query_heads;  // Q
  std::int64_t key_heads;    // K
  std::int64_t head_size;    // D
  std::int64_t positions;    // C
  float scale;
};

// out[a, q] = softmax(scale * query[a, q] . keys[a, :contexts[a], k]) . values[a, :contexts[a], k],
// k the key head of q. query and out are [A, Q, D], keys and values [S, C, K, D]. Every context is
// at least 1. Rows are shared out among at most `threads` threads; the result does not depend on
// how many.
void AttendOneToken(const OneTokenShape& shape, const float* query, const float* keys,
                    const float* values, const std::int64_t* contexts, float* out, int threads);

}  // namespace agentmath
