#include "rollout/balancer.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "rollout/balancer_state.h"

namespace agentmath::rollout {
namespace {

constexpr const char* kPolicyNames[kNumPolicies] = {"agentmath", "breakable",    "round_robin",
                                                    "least",     "power_of_two", "consistent_hash",
                                                    "radix",     "score"};
constexpr std::int64_t kMaxTokens = INT32_MAX;
// With at most 2^24 leases no sum leaves 64 bits.
constexpr std::int64_t kMaxWeight = kWeightUnit << 22;
constexpr double kMaxBaseWeight = 1 << 20;
constexpr std::int64_t kMaxNanoseconds = std::int64_t{1} << 55;  // about a year

template <typename Number>
void Demand(bool holds, const char* name, Number value, const char* wanted) {
  if (holds) return;
  throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) + ", it must be " +
                              wanted);
}

// Also refuses what is not a number.
bool IsWithin(double value, double lowest, double highest) {
  return value >= lowest && value <= highest;
}

const BalancerSettings& Checked(const BalancerSettings& s) {
  Demand(s.base_tokens >= 1, "base_tokens", s.base_tokens, "1 or more");
  Demand(IsWithin(s.base_weight, 0, kMaxBaseWeight), "base_weight", s.base_weight, "0 to 2^20");
  Demand(IsWithin(s.leave_factor, 1, 1e9), "leave_factor", s.leave_factor, "1 or more");
  Demand(IsWithin(s.leave_slack, 0, 1e9), "leave_slack", s.leave_slack, "0 or more");
  Demand(IsWithin(s.miss_weight, 0, 1e9), "miss_weight", s.miss_weight, "0 or more");
  Demand(IsWithin(s.radix_match, 0, 1), "radix_match", s.radix_match, "0 to 1");
  Demand(s.radix_gap >= 0, "radix_gap", s.radix_gap, "0 or more");
  Demand(IsWithin(s.radix_ratio, 1, 1e9), "radix_ratio", s.radix_ratio, "1 or more");
  Demand(IsWithin(s.score_load, 0, 1e9), "score_load", s.score_load, "0 or more");
  Demand(IsWithin(s.kv_share, 1e-9, 1), "kv_share", s.kv_share, "above 0, at most 1");
  Demand(s.block_tokens >= 1 && s.block_tokens <= kMaxTokens, "block_tokens", s.block_tokens,
         "1 to 2^31 - 1");
  Demand(s.max_sessions >= 1 && s.max_sessions < kMaxTokens, "max_sessions", s.max_sessions,
         "1 to 2^31 - 1");
  Demand(s.breaker_failures >= 0, "breaker_failures", s.breaker_failures, "0 or more");
  Demand(s.breaker_nanoseconds >= 0 && s.breaker_nanoseconds <= kMaxNanoseconds,
         "breaker_nanoseconds", s.breaker_nanoseconds, "0 to 2^55");
  return s;
}

}  // namespace

const char* PolicyName(Policy policy) { return kPolicyNames[static_cast<int>(policy)]; }

Policy PolicyFromName(const std::string& name) {
  std::string all;
  for (int i = 0; i < kNumPolicies; ++i) {
    if (name == kPolicyNames[i]) return static_cast<Policy>(i);
    all += std::string(i == 0 ? "" : ", ") + kPolicyNames[i];
  }
  throw std::invalid_argument("policy is \"" + name + "\", it must be one of " + all);
}

Balancer::State::State(const BalancerSettings& given)
    : settings(Checked(given)),
      sessions(given.max_sessions),
      index(given.index_bytes),
      random(given.seed) {}

Engine& Balancer::State::At(int engine) {
  if (engine < 0 || engine >= static_cast<int>(engines.size()))
    throw std::invalid_argument("engine is " + std::to_string(engine) + ", there are " +
                                std::to_string(engines.size()));
  return engines[static_cast<std::size_t>(engine)];
}

// floor(L / L_base) + w_base
std::int64_t Balancer::State::Weight(std::int64_t num_tokens) const {
  Demand(num_tokens >= 0 && num_tokens <= kMaxTokens, "num_tokens", num_tokens, "0 to 2^31 - 1");
  const std::int64_t whole = num_tokens / settings.base_tokens;
  Demand(whole < kMaxWeight / kWeightUnit, "num_tokens / base_tokens", whole, "below 2^22");
  return whole * kWeightUnit + std::llround(settings.base_weight * kWeightUnit);
}

Context Balancer::State::Read(const Request& request) {
  Context context;
  context.num_tokens = request.num_tokens;
  context.weight = Weight(request.num_tokens);
  const std::int64_t block = settings.block_tokens;
  Demand(request.num_blocks >= 0 && (request.num_blocks == 0 ||
                                     request.num_blocks - 1 <= (request.num_tokens - 1) / block),
         "num_blocks", request.num_blocks, "not more than num_tokens fill");
  Demand(request.group_tokens >= 0 && request.group_tokens <= request.num_tokens, "group_tokens",
         request.group_tokens, "0 to num_tokens");
  if (index.max_blocks() == 0) return context;
  context.has_content = request.tokens != nullptr || request.blocks != nullptr;
  if (request.tokens != nullptr) {
    const auto whole = static_cast<std::size_t>(request.num_tokens / block);
    context.blocks = {request.tokens, nullptr, whole, static_cast<std::size_t>(block)};
  } else if (request.blocks != nullptr) {
    const auto named = static_cast<std::size_t>(request.num_blocks);
    context.blocks = {nullptr, request.blocks, named, static_cast<std::size_t>(block)};
  } else if (request.group != 0 && request.group_tokens > 0) {
    group_name = Mix(static_cast<std::uint64_t>(request.group)) ^ kEmptyPrefix;
    context.blocks = {nullptr, &group_name, 1, static_cast<std::size_t>(request.group_tokens)};
  }
  return context;
}

Balancer::Balancer(const BalancerSettings& settings) : state_(new State(settings)) {}
Balancer::~Balancer() = default;

int Balancer::AddEngine(const EngineSpec& spec) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  Demand(IsWithin(spec.capacity, 1e-6, 1e6), "capacity", spec.capacity, "above 0, up to 10^6");
  Demand(spec.kv_tokens >= 0, "kv_tokens", spec.kv_tokens, "0 or more");
  state_->index.AddEngine();
  state_->engines.emplace_back();
  state_->engines.back().spec = spec;
  return static_cast<int>(state_->engines.size()) - 1;
}

void Balancer::EngineUp(int engine) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->At(engine).state = EngineState::kUp;
  state_->At(engine).CloseBreaker();
}

std::vector<std::int64_t> Balancer::EngineDown(int engine) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  State& state = *state_;
  Engine& gone = state.At(engine);
  std::vector<std::int64_t> lost;
  state.leases.ForEach([&](Lease* lease) {
    if (lease->engine != engine) return;
    if (!lease->is_paused) lost.push_back(state.leases.NumberOf(*lease));
    ++state.counts.num_lost;
    state.Close(lease, Ending::kFailed);
  });
  gone.state = EngineState::kDown;
  gone.CloseBreaker();
  state.VoidCache(engine);
  gone.down_epoch = gone.cache_epoch;
  return lost;
}

void Balancer::Drain(int engine) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  Engine& tired = state_->At(engine);
  if (tired.state == EngineState::kUp) tired.state = EngineState::kDraining;
}

void Balancer::SetVersion(int engine, std::int64_t version) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->At(engine).spec.version = version;
  state_->VoidCache(engine);
}

void Balancer::ClearCache(int engine) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->At(engine);
  state_->VoidCache(engine);
}

void Balancer::DropCached(int engine, const Request& request, std::int64_t kept_tokens) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  State& state = *state_;
  const std::int64_t version = state.At(engine).spec.version;
  Demand(kept_tokens >= 0, "kept_tokens", kept_tokens, "0 or more");
  Context context = state.Read(request);
  state.HashAll(&context);
  const std::size_t kept = static_cast<std::size_t>(kept_tokens) / context.blocks.block_tokens;
  state.index.Drop(state.chain.data(), state.chain.size(), kept, engine, version);
  Session* session = state.sessions.Find(request.session);
  if (session != nullptr && session->engine == engine)
    session->context_tokens = std::min(session->context_tokens, kept_tokens);
}

Placement Balancer::Acquire(const Request& request, std::int64_t now) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->Acquire(request, now);
}

void Balancer::Adopt(int engine, const Request& request) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  State& state = *state_;
  if (state.At(engine).state == EngineState::kDown)
    throw std::invalid_argument("engine " + std::to_string(engine) +
                                " is down: nothing is cached there");
  Context context = state.Read(request);
  Session* session =
      request.session == kNoSession ? nullptr : &state.sessions.Open(request.session);
  if (session != nullptr && !session->is_idle())
    throw std::invalid_argument("session " + std::to_string(request.session) +
                                " has open leases: it cannot be adopted");
  state.Learn(&context, session, engine);
  if (session == nullptr) return;
  session->context_tokens = context.num_tokens;
  state.sessions.Settle(session);
}

}  // namespace agentmath::rollout
