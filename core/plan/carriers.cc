#include "core/plan/carriers.h"

#include <algorithm>
#include <string_view>

namespace roda::engine {
namespace {

// Whether it can carry anything that lies in host memory.
bool serves_host(const roda_transport& t, const PlanQuery& host) {
  return (t.capabilities & (RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_PUT)) != 0 || works_on(t, host);
}

}  // namespace

bool works_on(const roda_transport& t, const PlanQuery& q) {
  return (t.capabilities & RODA_CAP_NATIVE) != 0 && t.collective_supported != nullptr &&
         t.collective_supported(nullptr, q.collective, q.dtype, q.op, q.memory_kind) == 1;
}

bool reaches(const roda_transport& t, const PlanQuery& q) {
  return (t.capabilities & RODA_CAP_SAME_HOST) == 0 || q.hosts <= 1;
}

PlanQuery in_host_memory(const PlanQuery& q) {
  PlanQuery host = q;
  host.memory_kind = RODA_MEMORY_HOST;
  if (host.op == RODA_AVERAGE) host.op = RODA_SUM;
  return host;
}

const DeviceChoice& Carriers::on_device(int collective) const {
  const bool is_adasum = collective == RODA_ADASUM_ALLREDUCE;
  const auto found = on_device_.find(static_cast<schedule::Collective>(is_adasum ? int{RODA_ALLREDUCE} : collective));
  if (found != on_device_.end()) return found->second;
  static const DeviceChoice none;
  return none;
}

Carriers::Transports Carriers::staging(const PlanQuery& q) const {
  const PlanQuery host = in_host_memory(q);
  Transports transports = on_device(q.collective).transports;
  std::erase_if(transports, [&](const roda_transport* t) { return !serves_host(*t, host); });
  return transports;
}

const roda_transport* Carriers::named(const std::string& name) const {
  const auto is_it = [&](const roda_transport* t) { return name == t->name; };
  if (const auto t = std::find_if(for_host_.begin(), for_host_.end(), is_it); t != for_host_.end()) return *t;
  for (const auto& [collective, choice] : on_device_) {
    const Transports& those = choice.transports;
    if (const auto t = std::find_if(those.begin(), those.end(), is_it); t != those.end()) return *t;
  }
  return nullptr;
}

bool Carriers::work_on_device(const PlanQuery& q) const {
  const Transports& those = on_device(q.collective).transports;
  return std::any_of(those.begin(), those.end(), [&](const roda_transport* t) { return works_on(*t, q); });
}

bool Carriers::add_on_device(const PlanQuery& q) const {
  PlanQuery scatter = q, gather = q;
  scatter.collective = RODA_REDUCESCATTER;
  gather.collective = RODA_ALLGATHER;
  scatter.op = gather.op = RODA_SUM;
  return q.memory_kind != RODA_MEMORY_HOST && work_on_device(scatter) && work_on_device(gather);
}

Carriers::Transports in_order_of_preference(Carriers::Transports usable, const std::vector<std::string>& named) {
  std::erase_if(usable, [&](const roda_transport* t) {
    if (named.empty()) return (t->capabilities & RODA_CAP_IN_PROCESS) != 0;
    return std::find(named.begin(), named.end(), t->name) == named.end();
  });
  std::sort(usable.begin(), usable.end(), [](const roda_transport* a, const roda_transport* b) {
    const bool a_near = (a->capabilities & RODA_CAP_SAME_HOST) != 0;
    const bool b_near = (b->capabilities & RODA_CAP_SAME_HOST) != 0;
    return a_near != b_near ? a_near : std::string_view(a->name) < std::string_view(b->name);
  });
  return usable;
}

}  // namespace roda::engine
