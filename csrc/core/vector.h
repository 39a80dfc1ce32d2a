// Several floats at once, in GCC and Clang vector types: the compiler lowers them to what the file
// is compiled for. Eight, or what AGENTMATH_LANES says. In an unnamed namespace on purpose, as
// files compiled for different instruction sets must not share these functions.
#pragma once

#include <cstdint>
#include <cstring>

namespace agentmath {
namespace {

#if !defined(AGENTMATH_LANES)
#define AGENTMATH_LANES 8
#endif

constexpr int kLanes = AGENTMATH_LANES;
typedef float Floats __attribute__((vector_size(4 * AGENTMATH_LANES)));
typedef std::int32_t Ints __attribute__((vector_size(4 * AGENTMATH_LANES)));

inline Floats Load(const float* p) {
  Floats v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline void Store(float* p, const Floats& v) { std::memcpy(p, &v, sizeof v); }

inline Floats All(float x) {
  Floats v;
  for (int i = 0; i < kLanes; ++i) v[i] = x;
  return v;
}

inline float Sum(const Floats& v) {
  float parts[kLanes];
  Store(parts, v);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) parts[i] += parts[i + half];
  return parts[0];
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

}  // namespace
}  // namespace agentmath
