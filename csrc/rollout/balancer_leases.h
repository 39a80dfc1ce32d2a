// Open leases by number. A number is a slot and how often that slot was used before, so one that
// was closed is told from one that was never given, for good and without remembering it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace agentmath::rollout {

struct Lease {
  std::int64_t session = 0;  // or kNoSession
  std::int64_t weight = 0;   // in units of 1 / kWeightUnit
  std::int64_t context_tokens = 0;
  std::int64_t num_uses = 0;  // of this slot
  int engine = -1;
  bool is_open = false;
  bool is_paused = false;
};

class Leases {
 public:
  static constexpr int kSlotBits = 24;

  // Before Open. Throws std::length_error above 2^24 open ones.
  void MakeRoom() {
    if (!free_.empty()) return;
    if (slots_.size() >> kSlotBits != 0)
      throw std::length_error("more than 2^24 leases are open: are they released?");
    slots_.emplace_back();
    free_.push_back(static_cast<std::uint32_t>(slots_.size() - 1));
  }

  std::int64_t Open(const Lease& lease) {
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    const std::int64_t num_uses = slots_[slot].num_uses + 1;
    slots_[slot] = lease;
    slots_[slot].num_uses = num_uses;
    slots_[slot].is_open = true;
    return num_uses << kSlotBits | slot;
  }

  // nullptr when it was closed. Throws std::invalid_argument when it was never given.
  Lease* Find(std::int64_t number) {
    const auto slot = static_cast<std::size_t>(number & ((1 << kSlotBits) - 1));
    const std::int64_t num_uses = number >> kSlotBits;
    if (num_uses < 1 || slot >= slots_.size() || num_uses > slots_[slot].num_uses)
      throw std::invalid_argument("lease " + std::to_string(number) + " was never given");
    Lease& lease = slots_[slot];
    return lease.is_open && lease.num_uses == num_uses ? &lease : nullptr;
  }

  void Close(Lease* lease) {
    lease->is_open = false;
    free_.push_back(static_cast<std::uint32_t>(lease - slots_.data()));
  }

  std::int64_t NumberOf(const Lease& lease) const {
    return lease.num_uses << kSlotBits | (&lease - slots_.data());
  }

  std::int64_t size() const { return static_cast<std::int64_t>(slots_.size() - free_.size()); }
  std::int64_t num_bytes() const {
    return static_cast<std::int64_t>(slots_.size() * sizeof(Lease) + free_.size() * 4);
  }

  // visit(Lease*) of each open one; it may close it.
  template <typename Visit>
  void ForEach(Visit visit) {
    for (Lease& lease : slots_)
      if (lease.is_open) visit(&lease);
  }

 private:
  std::vector<Lease> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace agentmath::rollout
