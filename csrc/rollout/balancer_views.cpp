// The state of a balancer as its users see it.
#include <cstdio>
#include <stdexcept>

#include "rollout/balancer_state.h"

namespace agentmath::rollout {
namespace {

constexpr std::int64_t kMaxListed = 200;
constexpr const char* kStates[] = {"up", "draining", "down"};
constexpr const char* kBreakers[] = {"closed", "open", "half-open"};

template <typename... Values>
void Print(std::string* out, const char* format, Values... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  *out += line;
}

double Units(std::int64_t weight) { return static_cast<double>(weight) / kWeightUnit; }

void Demand(bool holds, const char* law) {
  if (!holds) throw std::logic_error(std::string("balancer: ") + law);
}

}  // namespace

const BalancerSettings& Balancer::settings() const { return state_->settings; }

int Balancer::EngineOf(std::int64_t lease) const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  const Lease* open = state_->leases.Find(lease);
  return open == nullptr ? kNoEngine : open->engine;
}

std::int64_t Balancer::NumKnownTokens(std::int64_t id) const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  const Session* session = state_->sessions.Find(id);
  if (session == nullptr || !state_->IsCached(*session, session->engine)) return 0;
  return session->num_blocks * state_->settings.block_tokens;
}

EngineView Balancer::Look(int number) const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  const Engine& engine = state_->At(number);
  EngineView view;
  view.state = engine.state;
  view.breaker = engine.breaker;
  view.capacity = engine.spec.capacity;
  view.kv_tokens = engine.spec.kv_tokens;
  view.version = engine.spec.version;
  view.weight = engine.weight;
  view.context_tokens = engine.context_tokens;
  view.num_running = engine.num_running;
  view.num_paused = engine.num_paused;
  view.num_blocks = state_->index.num_held(number);
  view.num_placed = engine.num_placed;
  return view;
}

BalancerStats Balancer::GetStats() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  BalancerStats stats = state_->counts;
  stats.num_engines = static_cast<std::int64_t>(state_->engines.size());
  stats.num_sessions = state_->sessions.size();
  stats.num_leases = state_->leases.size();
  stats.num_blocks = state_->index.num_blocks();
  stats.num_index_bytes = state_->index.num_bytes();
  stats.num_session_bytes = state_->sessions.num_bytes();
  stats.num_lease_bytes = state_->leases.num_bytes();
  return stats;
}

std::string Balancer::Dump() const {
  const BalancerStats stats = GetStats();
  const std::lock_guard<std::mutex> lock(state_->mutex);
  std::string out;
  Print(&out, "balancer %s: %zu engines, %lld sessions, %lld leases, %lld of %lld blocks\n",
        PolicyName(state_->settings.policy), state_->engines.size(),
        static_cast<long long>(stats.num_sessions), static_cast<long long>(stats.num_leases),
        static_cast<long long>(stats.num_blocks),
        static_cast<long long>(state_->index.max_blocks()));
  Print(&out, "placed %llu (stayed %llu, moved %llu), refused %llu, late %llu, lost %llu\n",
        static_cast<unsigned long long>(stats.num_placed),
        static_cast<unsigned long long>(stats.num_stayed),
        static_cast<unsigned long long>(stats.num_moved),
        static_cast<unsigned long long>(stats.num_refused),
        static_cast<unsigned long long>(stats.num_late),
        static_cast<unsigned long long>(stats.num_lost));
  for (std::size_t k = 0; k < state_->engines.size(); ++k) {
    const Engine& engine = state_->engines[k];
    Print(&out,
          "engine %zu %s, breaker %s, version %lld, W %.4f / %g, %lld + %lld paused leases, "
          "%lld of %lld tokens, %lld blocks\n",
          k, kStates[static_cast<int>(engine.state)], kBreakers[static_cast<int>(engine.breaker)],
          static_cast<long long>(engine.spec.version), Units(engine.weight), engine.spec.capacity,
          static_cast<long long>(engine.num_running), static_cast<long long>(engine.num_paused),
          static_cast<long long>(engine.context_tokens),
          static_cast<long long>(engine.spec.kv_tokens),
          static_cast<long long>(state_->index.num_held(static_cast<int>(k))));
  }
  std::int64_t num_listed = 0;
  state_->leases.ForEach([&](Lease* lease) {
    if (++num_listed > kMaxListed) return;
    const std::string whose =
        lease->session == kNoSession ? "no session" : "session " + std::to_string(lease->session);
    Print(&out, "lease %lld %s, %s at engine %d, w %.4f, %lld tokens\n",
          static_cast<long long>(state_->leases.NumberOf(*lease)),
          lease->is_paused ? "paused" : "running", whose.c_str(), lease->engine,
          Units(lease->weight), static_cast<long long>(lease->context_tokens));
  });
  if (num_listed > kMaxListed)
    Print(&out, "... and %lld more leases\n", static_cast<long long>(num_listed - kMaxListed));
  num_listed = 0;
  state_->sessions.ForEach([&](const Session& session) {
    if (++num_listed > kMaxListed) return;
    Print(&out, "session %lld %s, %d blocks of its context known at engine %d\n",
          static_cast<long long>(session.id), session.is_idle() ? "idle" : "busy",
          session.num_blocks, session.engine);
  });
  if (num_listed > kMaxListed)
    Print(&out, "... and %lld more sessions\n", static_cast<long long>(num_listed - kMaxListed));
  return out;
}

void Balancer::Verify() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  std::vector<Engine> sums(state_->engines.size());
  std::int64_t num_running = 0, num_paused = 0;
  state_->leases.ForEach([&](Lease* lease) {
    Engine& sum = sums[static_cast<std::size_t>(lease->engine)];
    sum.weight += lease->weight;
    sum.context_tokens += lease->context_tokens;
    ++(lease->is_paused ? sum.num_paused : sum.num_running);
    if (lease->session == kNoSession) return;
    const Session* session = state_->sessions.Find(lease->session);
    Demand(session != nullptr, "a lease's session is not known");
    Demand(lease->is_paused == (session->paused == state_->leases.NumberOf(*lease)),
           "a session and its lease disagree");
    ++(lease->is_paused ? num_paused : num_running);
  });
  for (std::size_t k = 0; k < sums.size(); ++k) {
    const Engine& engine = state_->engines[k];
    Demand(engine.weight == sums[k].weight, "weights do not add up");
    Demand(engine.context_tokens == sums[k].context_tokens, "tokens do not add up");
    Demand(engine.num_running == sums[k].num_running, "running leases do not add up");
    Demand(engine.num_paused == sums[k].num_paused, "paused leases do not add up");
    Demand(engine.state != EngineState::kDown || engine.num_bound() == 0,
           "a lease at a dead engine");
  }
  std::int64_t num_sessions = 0;
  state_->sessions.ForEach([&](const Session& session) {
    ++num_sessions;
    num_running -= session.num_running;
    num_paused -= session.paused != 0;
  });
  Demand(num_sessions == state_->sessions.size(), "sessions miscounted");
  Demand(num_running == 0 && num_paused == 0, "leases of sessions do not add up");
  state_->index.Verify();
}

}  // namespace agentmath::rollout
