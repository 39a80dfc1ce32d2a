// agentmath._C.balancer: arrays in, small records out, nothing kept. Bad values raise ValueError.
#include "rollout/balancer.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdint>
#include <optional>

#include "bindings/rooms.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace agentmath {
namespace {

using rollout::Balancer;
using rollout::BalancerSettings;
using rollout::BalancerStats;
using rollout::Ending;
using rollout::EngineView;
using rollout::Placement;
using rollout::Request;

using Ids = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Names = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// About 40 us of hashing. Below that, giving up the GIL costs more than it saves: another thread
// may keep it for milliseconds.
constexpr std::int64_t kLongTokens = 16384;
// Half a millisecond, in case a known session leaves its engine and all of it is hashed again.
constexpr std::int64_t kVeryLongTokens = 131072;

constexpr std::array<const char*, 4> kAdmissions = {"placed", "busy", "no_engine", "too_long"};
constexpr std::array<const char*, 3> kStates = {"up", "draining", "down"};
constexpr std::array<const char*, 3> kBreakers = {"closed", "open", "half_open"};
constexpr std::array<const char*, 3> kEndings = {"finished", "failed", "cancelled"};

Request OfIds(const Ids& ids, std::int64_t session, std::int64_t min_version) {
  Request request;
  request.session = session;
  request.tokens = ids.data();
  request.num_tokens = static_cast<std::int64_t>(ids.shape(0));
  request.min_version = min_version;
  // An empty array may have no memory; it is content all the same.
  static const std::int32_t nothing = 0;
  if (request.tokens == nullptr) request.tokens = &nothing;
  return request;
}

Placement Acquire(Balancer& balancer, const Ids& ids, std::int64_t session,
                  std::int64_t min_version, std::int64_t now) {
  const Request request = OfIds(ids, session, min_version);
  std::optional<nb::gil_scoped_release> release;
  if (request.num_tokens > kLongTokens &&
      (request.num_tokens > kVeryLongTokens ||
       request.num_tokens - balancer.NumKnownTokens(session) > kLongTokens))
    release.emplace();
  return balancer.Acquire(request, now);
}

Placement AcquireBlocks(Balancer& balancer, const Names& names, std::int64_t num_tokens,
                        std::int64_t session, std::int64_t min_version, std::int64_t now) {
  Request request;
  request.session = session;
  request.blocks = names.data();
  request.num_blocks = static_cast<std::int64_t>(names.shape(0));
  request.num_tokens = num_tokens;
  request.min_version = min_version;
  return balancer.Acquire(request, now);
}

struct LengthOnly {
  std::int64_t session, group, group_tokens, min_version;
};

Placement AcquireLength(Balancer& balancer, std::int64_t num_tokens, const LengthOnly& what,
                        std::int64_t now) {
  Request request;
  request.num_tokens = num_tokens;
  request.session = what.session;
  request.group = what.group;
  request.group_tokens = what.group_tokens;
  request.min_version = what.min_version;
  return balancer.Acquire(request, now);
}

bool Release(Balancer& balancer, std::int64_t lease, const std::string& ending, std::int64_t now) {
  for (std::size_t i = 0; i < kEndings.size(); ++i)
    if (ending == kEndings[i]) return balancer.Release(lease, static_cast<Ending>(i), now);
  throw nb::value_error("ending must be finished, failed or cancelled");
}

// Of the settings, only the policy is an enumeration: it goes by its name.
void BindSettings(nb::module_& m) {
  nb::class_<BalancerSettings>(m, "Settings")
      .def(nb::init<>())
      .def_prop_rw(
          "policy", [](const BalancerSettings& s) { return rollout::PolicyName(s.policy); },
          [](BalancerSettings& s, const std::string& name) {
            s.policy = rollout::PolicyFromName(name);
          })
      .def_rw("base_tokens", &BalancerSettings::base_tokens)
      .def_rw("base_weight", &BalancerSettings::base_weight)
      .def_rw("leave_factor", &BalancerSettings::leave_factor)
      .def_rw("leave_slack", &BalancerSettings::leave_slack)
      .def_rw("miss_weight", &BalancerSettings::miss_weight)
      .def_rw("radix_match", &BalancerSettings::radix_match)
      .def_rw("radix_gap", &BalancerSettings::radix_gap)
      .def_rw("radix_ratio", &BalancerSettings::radix_ratio)
      .def_rw("score_load", &BalancerSettings::score_load)
      .def_rw("kv_share", &BalancerSettings::kv_share)
      .def_rw("block_tokens", &BalancerSettings::block_tokens)
      .def_rw("index_bytes", &BalancerSettings::index_bytes)
      .def_rw("max_sessions", &BalancerSettings::max_sessions)
      .def_rw("breaker_failures", &BalancerSettings::breaker_failures)
      .def_rw("breaker_nanoseconds", &BalancerSettings::breaker_nanoseconds)
      .def_rw("seed", &BalancerSettings::seed);
}

void BindRecords(nb::module_& m) {
  nb::class_<Placement>(m, "Placement")
      .def_prop_ro(
          "admission",
          [](const Placement& p) { return kAdmissions[static_cast<std::size_t>(p.admission)]; })
      .def_ro("engine", &Placement::engine)
      .def_ro("lease", &Placement::lease)
      .def_ro("hit_tokens", &Placement::hit_tokens)
      .def_ro("version", &Placement::version)
      .def_ro("is_new", &Placement::is_new)
      .def_ro("has_moved", &Placement::has_moved)
      .def_ro("retry_nanoseconds", &Placement::retry_nanoseconds);
  nb::class_<EngineView>(m, "EngineView")
      .def_prop_ro("state",
                   [](const EngineView& v) { return kStates[static_cast<std::size_t>(v.state)]; })
      .def_prop_ro(
          "breaker",
          [](const EngineView& v) { return kBreakers[static_cast<std::size_t>(v.breaker)]; })
      .def_ro("capacity", &EngineView::capacity)
      .def_ro("kv_tokens", &EngineView::kv_tokens)
      .def_ro("version", &EngineView::version)
      .def_ro("weight_units", &EngineView::weight)
      .def_ro("context_tokens", &EngineView::context_tokens)
      .def_ro("num_running", &EngineView::num_running)
      .def_ro("num_paused", &EngineView::num_paused)
      .def_ro("num_blocks", &EngineView::num_blocks)
      .def_ro("num_placed", &EngineView::num_placed);
  nb::class_<BalancerStats>(m, "Stats")
      .def_ro("num_engines", &BalancerStats::num_engines)
      .def_ro("num_sessions", &BalancerStats::num_sessions)
      .def_ro("num_leases", &BalancerStats::num_leases)
      .def_ro("num_blocks", &BalancerStats::num_blocks)
      .def_ro("num_index_bytes", &BalancerStats::num_index_bytes)
      .def_ro("num_session_bytes", &BalancerStats::num_session_bytes)
      .def_ro("num_lease_bytes", &BalancerStats::num_lease_bytes)
      .def_ro("num_placed", &BalancerStats::num_placed)
      .def_ro("num_stayed", &BalancerStats::num_stayed)
      .def_ro("num_moved", &BalancerStats::num_moved)
      .def_ro("num_refused", &BalancerStats::num_refused)
      .def_ro("num_late", &BalancerStats::num_late)
      .def_ro("num_lost", &BalancerStats::num_lost)
      .def_ro("num_hit_tokens", &BalancerStats::num_hit_tokens)
      .def_ro("num_tokens", &BalancerStats::num_tokens);
}

void BindEngines(nb::class_<Balancer>& balancer) {
  balancer
      .def(
          "add_engine",
          [](Balancer& b, double capacity, std::int64_t kv_tokens, std::int64_t version) {
            return b.AddEngine({capacity, kv_tokens, version});
          },
          "capacity"_a, "kv_tokens"_a, "version"_a)
      .def("engine_up", &Balancer::EngineUp, "engine"_a)
      .def("engine_down", &Balancer::EngineDown, "engine"_a)
      .def("drain", &Balancer::Drain, "engine"_a)
      .def("set_version", &Balancer::SetVersion, "engine"_a, "version"_a)
      .def("clear_cache", &Balancer::ClearCache, "engine"_a)
      .def(
          "drop_cached",
          [](Balancer& b, int engine, const Ids& ids, std::int64_t session, std::int64_t kept) {
            b.DropCached(engine, OfIds(ids, session, rollout::kAnyVersion), kept);
          },
          "engine"_a, "ids"_a.noconvert(), "session"_a, "kept_tokens"_a)
      .def(
          "adopt",
          [](Balancer& b, int engine, const Ids& ids, std::int64_t session) {
            b.Adopt(engine, OfIds(ids, session, rollout::kAnyVersion));
          },
          "engine"_a, "ids"_a.noconvert(), "session"_a);
}

}  // namespace

void BindBalancer(nb::module_& parent) {
  nb::module_ m =
      parent.def_submodule("balancer", "Where a request runs, and who has cached what.");
  BindSettings(m);
  BindRecords(m);
  nb::class_<Balancer> balancer(m, "Balancer");
  balancer.def(nb::init<const BalancerSettings&>(), "settings"_a)
      .def("acquire", &Acquire, "ids"_a.noconvert(), "session"_a, "min_version"_a, "now"_a)
      .def("acquire_blocks", &AcquireBlocks, "names"_a.noconvert(), "num_tokens"_a, "session"_a,
           "min_version"_a, "now"_a)
      .def(
          "acquire_length",
          [](Balancer& b, std::int64_t num_tokens, std::int64_t session, std::int64_t group,
             std::int64_t group_tokens, std::int64_t min_version, std::int64_t now) {
            return AcquireLength(b, num_tokens, {session, group, group_tokens, min_version}, now);
          },
          "num_tokens"_a, nb::kw_only(), "session"_a, "group"_a, "group_tokens"_a, "min_version"_a,
          "now"_a)
      .def("progress", &Balancer::Progress, "lease"_a, "num_tokens"_a)
      .def("pause", &Balancer::Pause, "lease"_a, "now"_a)
      .def("release", &Release, "lease"_a, "ending"_a, "now"_a)
      .def("end_session", &Balancer::EndSession, "session"_a)
      .def("engine_of", &Balancer::EngineOf, "lease"_a)
      .def("num_known_tokens", &Balancer::NumKnownTokens, "session"_a)
      .def("look", &Balancer::Look, "engine"_a)
      .def("stats", &Balancer::GetStats)
      .def("dump", &Balancer::Dump)
      .def("verify", &Balancer::Verify);
  balancer.attr("WEIGHT_UNIT") = rollout::kWeightUnit;
  balancer.attr("ANY_VERSION") = rollout::kAnyVersion;
  balancer.attr("NO_SESSION") = rollout::kNoSession;
  BindEngines(balancer);
}

}  // namespace agentmath
