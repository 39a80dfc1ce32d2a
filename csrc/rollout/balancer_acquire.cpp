// One decision: who is a candidate, who is chosen, and what changes by it.
#include <algorithm>

#include "rollout/balancer_state.h"

namespace agentmath::rollout {

Placement Balancer::State::Acquire(const Request& request, std::int64_t given_now) {
  now = std::max(now, given_now);
  leases.MakeRoom();
  Context context = Read(request);
  Session* session = sessions.Find(request.session);
  // A session does not stand in its own way: its paused weight is off while it is weighed.
  Lease* paused = nullptr;
  if (session != nullptr && session->paused != 0) paused = leases.Find(session->paused);
  if (paused != nullptr) Unbind(*paused);
  const int engine = Route(request, &context, session, paused != nullptr);
  if (engine == kNoEngine) {
    if (paused != nullptr) Rebind(*paused);
    return Refuse(request, context);
  }

  const int home = session != nullptr && HasHome(*session) ? session->engine : kNoEngine;
  Placement place;
  place.admission = Admission::kPlaced;
  place.engine = engine;
  place.version = engines[engine].spec.version;
  place.is_new = home == kNoEngine;
  place.has_moved = home != kNoEngine && home != engine;
  if (paused != nullptr) {
    leases.Close(paused);
    session->paused = 0;
  }
  if (request.session != kNoSession) session = &sessions.Open(request.session);
  place.hit_tokens = Learn(&context, session, engine);
  Bind(context, session, &place);
  return place;
}

// The engine, or kNoEngine; leaves everything as it is but the scratch.
int Balancer::State::Route(const Request& request, Context* context, Session* session,
                           bool has_paused) {
  const Policy policy = settings.policy;
  int home = session != nullptr && HasHome(*session) ? session->engine : kNoEngine;
  if (home != kNoEngine && !engines[home].IsOpen(request.min_version, now)) home = kNoEngine;
  candidates.clear();
  for (int k = 0; k < static_cast<int>(engines.size()); ++k) {
    const Engine& engine = engines[k];
    if (!engine.IsOpen(request.min_version, now)) continue;
    const bool keeps_room = k == home && has_paused && engine.CanEverFit(context->num_tokens);
    if (keeps_room || engine.Fits(context->num_tokens, settings.kv_share)) candidates.push_back(k);
  }
  const bool home_fits = std::binary_search(candidates.begin(), candidates.end(), home);
  if (policy == Policy::kAgentMath && home != kNoEngine &&
      engines[home].CanEverFit(context->num_tokens))
    return home_fits ? home : kNoEngine;  // it waits for its engine
  if (candidates.empty()) return kNoEngine;
  Question question{settings, engines, candidates, next_engine, context->num_tokens};
  if (policy == Policy::kBreakable && home_fits && IsCached(*session, home) &&
      !MayLeave(question, home, context->weight))
    return home;
  if (candidates.size() == 1) return candidates[0];
  if (NeedsHits(policy)) {
    FindHits(context, session);
    question.hit_tokens = hits.data();
  }
  question.index = &index;
  question.key = policy == Policy::kConsistentHash ? HashKey(request, *context) : 0;
  return Choose(question, &random);
}

// Expected hits of all candidates: one walk for each bank of engines and version of weights.
void Balancer::State::FindHits(Context* context, const Session* session) {
  hits.assign(engines.size(), 0);
  HashAll(context);
  std::int64_t held[PrefixIndex::kBank];
  for (std::size_t begin = 0, end = 0; begin < candidates.size() && !chain.empty(); begin = end) {
    const int bank = candidates[begin] / PrefixIndex::kBank;
    while (end < candidates.size() && candidates[end] / PrefixIndex::kBank == bank) ++end;
    for (std::size_t i = begin; i < end; ++i) {
      const std::int64_t version = engines[candidates[i]].spec.version;
      std::uint64_t same = 0;
      bool is_done = false;
      for (std::size_t j = begin; j < end; ++j) {
        if (engines[candidates[j]].spec.version != version) continue;
        is_done = is_done || j < i;
        same |= std::uint64_t{1} << candidates[j] % PrefixIndex::kBank;
      }
      if (is_done) continue;
      index.Match(chain.data(), chain.size(), bank, same, version, held);
      for (; same != 0; same &= same - 1) {
        const int bit = __builtin_ctzll(same);
        hits[bank * PrefixIndex::kBank + bit] =
            held[bit] * static_cast<std::int64_t>(context->blocks.block_tokens);
      }
    }
  }
  for (std::int64_t& hit : hits) hit = std::min(hit, context->num_tokens);
  if (session != nullptr && IsCached(*session, session->engine))
    hits[session->engine] = std::max(hits[session->engine], LengthHit(*context, *session));
}

void Balancer::State::Bind(const Context& context, Session* session, Placement* place) {
  Lease lease;
  lease.session = session == nullptr ? kNoSession : session->id;
  lease.weight = context.weight;
  lease.context_tokens = context.num_tokens;
  lease.engine = place->engine;
  Engine& engine = engines[place->engine];
  place->lease = leases.Open(lease);
  if (engine.breaker != Breaker::kClosed) engine.Probe(place->lease);
  Rebind(lease);
  ++engine.num_placed;
  next_engine = place->engine + 1;
  if (session != nullptr) {
    ++session->num_running;
    session->has_ended = false;
    sessions.Settle(session);
  }
  ++counts.num_placed;
  counts.num_stayed += !place->is_new && !place->has_moved;
  counts.num_moved += place->has_moved;
  counts.num_hit_tokens += static_cast<std::uint64_t>(place->hit_tokens);
  counts.num_tokens += static_cast<std::uint64_t>(context.num_tokens);
}

Placement Balancer::State::Refuse(const Request& request, const Context& context) {
  Placement place;
  bool can_fit = engines.empty(), is_busy = false;
  for (const Engine& engine : engines) {
    if (!engine.CanEverFit(context.num_tokens)) continue;
    can_fit = true;
    is_busy = is_busy || engine.IsOpen(request.min_version, now);
    const bool will_open = engine.state == EngineState::kUp && engine.breaker == Breaker::kOpen &&
                           engine.spec.version >= request.min_version;
    if (!will_open) continue;
    std::int64_t& retry = place.retry_nanoseconds;
    retry = retry == 0 ? engine.reopen : std::min(retry, engine.reopen);
  }
  place.admission = !can_fit  ? Admission::kTooLong
                    : is_busy ? Admission::kBusy
                              : Admission::kNoEngine;
  if (place.admission != Admission::kNoEngine) place.retry_nanoseconds = 0;
  ++counts.num_refused;
  return place;
}

std::uint64_t Balancer::State::HashKey(const Request& request, const Context& context) const {
  if (request.session != kNoSession) return Mix(static_cast<std::uint64_t>(request.session)) | 1;
  return context.blocks.num_blocks == 0 ? 0 : context.blocks.Hash(kEmptyPrefix, 0);
}

}  // namespace agentmath::rollout
