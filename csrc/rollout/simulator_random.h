// Random numbers of the simulator. Standard distributions differ between libraries, these do not.
#pragma once

#include <cmath>
#include <cstdint>

namespace agentmath::rollout {

// SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators"): a
// stream for each (seed, stream), so that what one trajectory draws does not depend on when it
// runs.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream) : state_(Mix(seed + kStep) ^ Mix(~stream)) {}

  std::uint64_t Bits() { return Mix(state_ += kStep); }

  // Inside (0, 1), so that its logarithm is finite.
  double Uniform() { return (static_cast<double>(Bits() >> 11) + 0.5) * 0x1p-53; }

  double Exponential(double mean) { return -mean * std::log(Uniform()); }

  // Standard normal (Box and Muller 1958).
  double Normal() {
    const double radius = std::sqrt(-2.0 * std::log(Uniform()));
    return radius * std::cos(6.283185307179586 * Uniform());
  }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;

  static std::uint64_t Mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

}  // namespace agentmath::rollout
