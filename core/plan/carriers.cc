#include "core/plan/carriers.h"

#include <algorithm>
#include <sstream>
#include <string_view>

namespace roda::engine {

using schedule::Collective;

namespace {

// Whether it can carry anything that lies in host memory.
bool serves_host(const roda_transport& t, const PlanQuery& host) {
  return (t.capabilities & (RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_PUT)) != 0 || works_on(t, host);
}

// Whether it has any collective on memory that is not the host's.
bool works_on_devices(const roda_transport* t) {
  PlanQuery any;
  any.memory_kind = RODA_MEMORY_CUDA;
  return works_on(*t, any);
}

Status find_named(const std::string& variable, const std::string& text, const Offer& offer,
                  Carriers::Transports* transports) {
  for (const std::string& name : names_in(text)) {
    const std::string reason = offer.why_unusable(name);
    if (!reason.empty()) return Status::unavailable(variable + " names the transport '" + name + "', " + reason);
    transports->push_back(offer.transport(*offer.loader.find(name)));
  }
  return {};
}

Carriers::Transports by_default(const Offer& offer, const Carriers::Transports& host) {
  Carriers::Transports transports;
  for (const plugins::PluginRecord* record : offer.loader.records()) {
    const roda_transport* t = offer.transport(*record);
    if (t != nullptr && works_on_devices(t)) transports.push_back(t);
  }
  for (const roda_transport* t : host) {
    if (std::ranges::find(transports, t) == transports.end()) transports.push_back(t);
  }
  return transports;
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
  host.is_staged = q.is_staged || q.memory_kind != RODA_MEMORY_HOST;
  if (host.op == RODA_AVERAGE) host.op = RODA_SUM;
  return host;
}

const DeviceChoice& Carriers::on_device(int collective) const {
  const bool is_adasum = collective == RODA_ADASUM_ALLREDUCE;
  const auto found = on_device_.find(static_cast<Collective>(is_adasum ? int{RODA_ALLREDUCE} : collective));
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
  if (const auto t = std::ranges::find_if(for_host_, is_it); t != for_host_.end()) return *t;
  for (const auto& [collective, choice] : on_device_) {
    const Transports& those = choice.transports;
    if (const auto t = std::ranges::find_if(those, is_it); t != those.end()) return *t;
  }
  return nullptr;
}

bool Carriers::work_on_device(const PlanQuery& q) const {
  const Transports& those = on_device(q.collective).transports;
  return std::ranges::any_of(those, [&](const roda_transport* t) { return works_on(*t, q); });
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
    return std::ranges::find(named, t->name) == named.end();
  });
  std::ranges::sort(usable, [](const roda_transport* a, const roda_transport* b) {
    const bool a_near = (a->capabilities & RODA_CAP_SAME_HOST) != 0;
    const bool b_near = (b->capabilities & RODA_CAP_SAME_HOST) != 0;
    return a_near != b_near ? a_near : std::string_view(a->name) < std::string_view(b->name);
  });
  return usable;
}

const roda_transport* Offer::transport(const plugins::PluginRecord& record) const {
  if (refused.contains(record.name)) return nullptr;
  if (record.transport != nullptr || !assumes_gpus || record.offered == nullptr) return record.transport;
  return works_on_devices(record.offered) ? record.offered : nullptr;
}

std::vector<std::string> Offer::assumptions() const {
  std::vector<std::string> texts;
  for (const plugins::PluginRecord* record : loader.records()) {
    if (!record->usable && transport(*record) != nullptr) texts.push_back(record->name + ": " + record->reason);
  }
  return texts;
}

std::string Offer::why_unusable(const std::string& name) const {
  const plugins::PluginRecord* record = loader.find(name);
  if (record == nullptr) {
    return "but no plugin of that name was found; `roda-info --plugins` lists what was found, and where";
  }
  if (transport(*record) != nullptr) return "";
  if (!record->usable) return "which can't be used here: " + record->reason;
  if (const auto why = refused.find(name); why != refused.end())
    return "which can't be used here: " + why->second.message();
  return "which is a plugin of kind '" + record->kind + "' and carries no data";
}

std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream in(text);
  for (std::string name; std::getline(in, name, '+');) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

Status choose_for_devices(const Knobs& knobs, const Offer& offer, const Carriers::Transports& host,
                          Carriers::OnDevice* choices) {
  // Horovod's collectives have variables of their own.
  const std::map<Collective, std::string> own = {{Collective::kAllreduce, knobs.gpu_allreduce},
                                                 {Collective::kAllgather, knobs.gpu_allgather},
                                                 {Collective::kBroadcast, knobs.gpu_broadcast},
                                                 {Collective::kAlltoall, knobs.gpu_alltoall},
                                                 {Collective::kReduceScatter, knobs.gpu_reducescatter}};
  for (const Collective collective : schedule::collectives()) {
    const roda_collective_entry& entry = schedule::entry_of(collective);
    if (entry.input == RODA_NOTHING || !schedule::is(collective, RODA_SUBMITTED)) continue;
    DeviceChoice& choice = (*choices)[collective];
    const auto form = own.find(collective);
    const bool is_own = form != own.end() && !form->second.empty();
    const std::string variable = std::string("HOROVOD_GPU_") + (is_own ? entry.name : "OPERATIONS");
    const std::string& text = is_own ? form->second : knobs.gpu_operations;
    RODA_RETURN_IF_ERROR(find_named(variable, text, offer, &choice.transports));
    const auto working = std::ranges::count_if(choice.transports, [](const auto* t) { return works_on_devices(t); });
    choice.is_mixed = working > 0 && static_cast<std::size_t>(working) < choice.transports.size();
    choice.composes = choice.is_mixed || (collective == Collective::kAllreduce && knobs.hierarchical_allreduce) ||
                      (collective == Collective::kAllgather && knobs.hierarchical_allgather);
    if (choice.transports.empty()) choice.transports = by_default(offer, host);
  }
  return {};
}

}  // namespace roda::engine
