// What the balancer believes to be cached where.
#include <algorithm>

#include "rollout/balancer_state.h"

namespace agentmath::rollout {
namespace {

// The session's known blocks grow by n; `before` is the hash in front of them.
void Remember(const std::uint64_t* chain, std::size_t n, std::uint64_t before, Session* session) {
  if (n == 0) return;
  session->chain_but_one = n == 1 ? before : chain[n - 2];
  session->chain = chain[n - 1];
  session->num_blocks += static_cast<std::int32_t>(n);
}

}  // namespace

bool Balancer::State::HasHome(const Session& session) const {
  if (session.engine == kNoEngine) return false;
  const Engine& engine = engines[session.engine];
  return engine.state == EngineState::kUp && session.cache_epoch >= engine.down_epoch;
}

bool Balancer::State::IsCached(const Session& session, int engine) const {
  return session.engine == engine && engine != kNoEngine &&
         session.cache_epoch == engines[engine].cache_epoch;
}

// Is the part of the session's context that is known a prefix of this one? Seen at its last block.
bool Balancer::State::Continues(const Context& context, const Session& session) const {
  const auto known = static_cast<std::size_t>(session.num_blocks);
  if (known == 0 || known > context.blocks.num_blocks || !context.has_content) return false;
  return context.blocks.Hash(session.chain_but_one, known - 1) == session.chain;
}

void Balancer::State::HashAll(Context* context) {
  if (context->is_hashed) return;
  context->blocks.HashFrom(0, kEmptyPrefix, &chain);
  context->is_hashed = true;
}

// Of a session that is cached at its engine: what its length says, where the content is not given.
std::int64_t Balancer::State::LengthHit(const Context& context, const Session& session) const {
  return context.has_content ? 0 : std::min(session.context_tokens, context.num_tokens);
}

// chain has all blocks.
std::int64_t Balancer::State::HeldTokens(const Context& context, int engine) const {
  std::int64_t held[PrefixIndex::kBank];
  const int bit = engine % PrefixIndex::kBank;
  index.Match(chain.data(), chain.size(), engine / PrefixIndex::kBank, std::uint64_t{1} << bit,
              engines[engine].spec.version, held);
  return std::min(held[bit] * static_cast<std::int64_t>(context.blocks.block_tokens),
                  context.num_tokens);
}

std::int64_t Balancer::State::Learn(Context* context, Session* session, int engine) {
  const bool was_cached = session != nullptr && IsCached(*session, engine);
  std::int64_t hit = was_cached ? LengthHit(*context, *session) : 0;
  if (was_cached && Continues(*context, *session)) {
    const std::int64_t known = session->num_blocks;
    if (LearnRest(context, session, engine))
      return known * static_cast<std::int64_t>(context->blocks.block_tokens);
  }
  HashAll(context);
  hit = std::max(hit, HeldTokens(*context, engine));
  index.Insert(nullptr, chain.data(), chain.size(), engine, engines[engine].spec.version);
  if (session == nullptr) return hit;
  if (!was_cached) session->context_tokens = 0;
  session->engine = engine;
  session->cache_epoch = engines[engine].cache_epoch;
  session->num_blocks = 0;
  if (context->has_content) Remember(chain.data(), chain.size(), kEmptyPrefix, session);
  return hit;
}

// Only what is new in a session's context; false where the index has lost what is known of it.
bool Balancer::State::LearnRest(Context* context, Session* session, int engine) {
  const auto known = static_cast<std::size_t>(session->num_blocks);
  const bool has_all = context->is_hashed;
  if (!has_all) context->blocks.HashFrom(known, session->chain, &chain);
  const std::uint64_t* rest = chain.data() + (has_all ? known : 0);
  const std::size_t n = context->blocks.num_blocks - known;
  if (!index.Insert(&session->chain, rest, n, engine, engines[engine].spec.version)) return false;
  Remember(rest, n, session->chain, session);
  return true;
}

void Balancer::State::VoidCache(int engine) {
  ++engines[engine].cache_epoch;
  index.Clear(engine);
}

}  // namespace agentmath::rollout
