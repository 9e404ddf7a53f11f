#include "core/plan/ranking.h"

#include <algorithm>

#include "core/execute/group.h"

namespace roda::engine {
namespace {

bool is_by_messages(int collective, const std::string& name) {
  const auto* algorithm = schedule::find_algorithm(static_cast<schedule::Collective>(collective), name);
  return algorithm != nullptr && !schedule::is_one_sided(algorithm->needs);
}

bool is_between_hosts(const PlanQuery& q) { return q.size > 1 && q.hosts == q.size; }

// Why no message may have a wire format; empty: it may.
std::string unformatted(const PlanQuery& q) {
  if (!is_between_hosts(q)) return "formats are for messages between hosts, and some ranks share a host here";
  if (q.dtype != RODA_FLOAT32) return std::string("formats are for float32, not for ") + roda_dtype_name(q.dtype);
  if (q.op != RODA_SUM) return std::string("formats are for sums, not for ") + roda_reduce_op_name(q.op);
  if (q.memory_kind != RODA_MEMORY_HOST || q.is_staged) return "formats are for tensors in host memory";
  return "";
}

// A transport whose messages may take devices' memory has its schedules of messages first: windows would have to be
// opened over host memory. The order among transports stays.
void prefer_messages(const Carriers::Transports& transports, int collective, Ranking::Verdicts* verdicts) {
  for (const roda_transport* t : transports) {
    if (t->memory_kinds == nullptr || (t->capabilities & RODA_CAP_P2P) == 0) continue;
    std::vector<select::Verdict*> places;
    Ranking::Verdicts own;
    for (select::Verdict& v : *verdicts) {
      if (v.option.transport != t->name || !v.usable) continue;
      places.push_back(&v);
      own.push_back(v);
    }
    std::stable_partition(own.begin(), own.end(),
                          [&](const select::Verdict& v) { return is_by_messages(collective, v.option.algorithm); });
    for (std::size_t i = 0; i < own.size(); ++i) *places[i] = own[i];
  }
}

}  // namespace

Ranking::Verdicts Ranking::rank(const PlanQuery& q, std::vector<select::Offer> offers,
                                const Obstacles& obstacles) const {
  select::Offer levels;
  levels.transport = select::kLevels;
  levels.compositions = obstacles;
  offers.push_back(std::move(levels));
  // Whole numbers come to the same bits in any order.
  const bool in_rank_order = terms_.in_rank_order && roda_dtype_is(q.dtype, RODA_FLOAT) != 0;
  const auto memory = q.memory_kind == RODA_MEMORY_CUDA ? select::Memory::kCuda : select::Memory::kHost;
  const auto collective = static_cast<schedule::Collective>(q.collective);
  const select::Query query{.collective = collective,
                            .memory = memory,
                            .bytes = q.bytes,
                            .size = q.size,
                            .in_rank_order = in_rank_order,
                            .between = is_between_hosts(q),
                            .unformatted = unformatted(q),
                            .no_gain = topology::no_gain(terms_.link, RODA_WIRE_BF16, q.bytes),
                            .most_error = terms_.most_error};
  return tables_[q.rules].rank(query, offers);
}

Ranking::Verdicts Ranking::in_memory(const PlanQuery& q, const Carriers::Transports& transports,
                                     const Obstacles& obstacles) const {
  std::vector<select::Offer> offers;
  for (const roda_transport* t : transports) {
    if (!reaches(*t, q)) continue;
    offers.push_back({.transport = t->name,
                      .needs_met = execute::needs_met(t->capabilities),
                      .native = works_on(*t, q),
                      .active_windows = (t->capabilities & RODA_CAP_ACTIVE_WINDOWS) != 0,
                      .maps = (t->capabilities & RODA_CAP_MAP) != 0});
  }
  return rank(q, std::move(offers), obstacles);
}

Ranking::Verdicts Ranking::on_device(const PlanQuery& q, const Obstacles& obstacles) const {
  std::vector<select::Offer> offers;
  for (const roda_transport* t : carriers_.on_device(q.collective).transports) {
    if (!reaches(*t, q) || !works_on(*t, q)) continue;
    select::Offer offer;
    offer.transport = t->name;
    offer.native = true;
    offers.push_back(std::move(offer));
  }
  Verdicts verdicts = rank(q, std::move(offers), obstacles);
  std::erase_if(verdicts, [](const select::Verdict& v) {
    return v.option.transport != select::kLevels && v.option.algorithm != select::kNative;
  });
  return verdicts;
}

Ranking::Verdicts Ranking::staged(const PlanQuery& q, const Obstacles& obstacles) const {
  const Carriers::Transports transports = carriers_.staging(q);
  Verdicts verdicts = in_memory(in_host_memory(q), transports, obstacles);
  prefer_messages(transports, q.collective, &verdicts);
  for (select::Verdict& v : verdicts) v.reason = (v.usable ? "staged through host memory, " : "") + v.reason;
  return verdicts;
}

Ranking::Verdicts Ranking::stage_on_device(const PlanQuery& part, bool is_outside, int whole) const {
  const Carriers::Transports& all = carriers_.on_device(whole).transports;
  const auto inside = std::ranges::find_if(all, [&](const roda_transport* t) { return works_on(*t, part); });
  Verdicts verdicts;
  Carriers::Transports others;
  for (const roda_transport* t : all) {
    if (is_outside && inside != all.end() && t == *inside) continue;
    others.push_back(t);
    if (reaches(*t, part) && works_on(*t, part)) {
      verdicts.push_back({{t->name, select::kNative}, true, "works on the devices' memory"});
    }
  }
  const auto add_staged = [&](const Carriers::Transports& transports) {
    Verdicts found = in_memory(in_host_memory(part), transports, {});
    prefer_messages(transports, part.collective, &found);
    for (select::Verdict& v : found) {
      // Two stages of one group would have to keep an order that copies do not keep.
      const bool keeps_order = v.option.algorithm != select::kNative || part.collective == RODA_ALLREDUCE;
      if (v.option.transport != select::kLevels && keeps_order) verdicts.push_back(std::move(v));
    }
  };
  add_staged(others);
  add_staged(carriers_.for_host());
  return verdicts;
}

}  // namespace roda::engine
