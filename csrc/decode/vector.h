// Eight floats at once, in GCC and Clang vector types: the compiler lowers them to what the file is
// compiled for. In an unnamed namespace on purpose, as files compiled for different instruction
// sets must not share these functions.
#pragma once

#include <cstdint>
#include <cstring>

namespace agentmath {
namespace {

constexpr int kLanes = 8;
typedef float Floats __attribute__((vector_size(32)));
typedef std::int32_t Ints __attribute__((vector_size(32)));

inline Floats Load(const float* p) {
  Floats v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline void Store(float* p, const Floats& v) { std::memcpy(p, &v, sizeof v); }

inline Floats All(float x) { return Floats{x, x, x, x, x, x, x, x}; }

inline float Sum(const Floats& v) {
  return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
}

// exp for x <= 0 with a relative error below 3e-7; 0 below -87. Reduction by ln 2 in two
// parts, then a polynomial (Moshier, Cephes, expf).
inline Floats ExpNegative(const Floats& argument) {
  const Floats low = All(-87.0f);
  const Floats x = argument < low ? low : argument;
  const Floats shift = All(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const Floats shifted = x * All(1.44269504f) + shift;
  const Floats n = shifted - shift;
  const Floats f = (x - n * All(0.693359375f)) + n * All(2.12194440e-4f);
  Floats p = All(1.9875691500e-4f);
  p = p * f + All(1.3981999507e-3f);
  p = p * f + All(8.3334519073e-3f);
  p = p * f + All(4.1665795894e-2f);
  p = p * f + All(1.6666665459e-1f);
  p = p * f + All(5.0000001201e-1f);
  p = p * f * f + f + All(1.0f);
  const Ints exponent = ((Ints)shifted - (Ints)shift + 127) << 23;
  return argument < low ? All(0.0f) : p * (Floats)exponent;
}

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

}  // namespace
}  // namespace agentmath
