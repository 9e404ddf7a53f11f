#include "core/plan/device_choice.h"

#include <algorithm>
#include <map>
#include <sstream>

namespace roda::engine {
namespace {

using schedule::Collective;

// Whether it has any collective on memory that is not the host's.
bool works_on_devices(const roda_transport* t) {
  if ((t->capabilities & RODA_CAP_NATIVE) == 0 || t->collective_supported == nullptr) return false;
  return t->collective_supported(nullptr, RODA_ALLREDUCE, RODA_FLOAT32, RODA_SUM, RODA_MEMORY_CUDA) == 1;
}

Status find_named(const std::string& variable, const std::string& text, const Offer& offer,
                  std::vector<const roda_transport*>* transports) {
  for (const std::string& name : names_in(text)) {
    const std::string reason = offer.why_unusable(name);
    if (!reason.empty()) return Status::unavailable(variable + " names the transport '" + name + "', " + reason);
    transports->push_back(offer.transport(*offer.loader.find(name)));
  }
  return {};
}

std::vector<const roda_transport*> by_default(const Offer& offer, const std::vector<const roda_transport*>& host) {
  std::vector<const roda_transport*> transports;
  for (const plugins::PluginRecord* record : offer.loader.records()) {
    const roda_transport* t = offer.transport(*record);
    if (t != nullptr && works_on_devices(t)) transports.push_back(t);
  }
  for (const roda_transport* t : host) {
    if (std::find(transports.begin(), transports.end(), t) == transports.end()) transports.push_back(t);
  }
  return transports;
}

}  // namespace

const roda_transport* Offer::transport(const plugins::PluginRecord& record) const {
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
    return "but no plugin of that name was found; `roda-info` lists where plugins are looked for and what was found";
  }
  if (transport(*record) != nullptr) return "";
  if (!record->usable) return "which can't be used here: " + record->reason;
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

Status choose_for_devices(const Knobs& knobs, const Offer& offer, const std::vector<const roda_transport*>& host,
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
    const auto working = std::count_if(choice.transports.begin(), choice.transports.end(),
                                       [](const auto* t) { return works_on_devices(t); });
    choice.is_mixed = working > 0 && static_cast<std::size_t>(working) < choice.transports.size();
    choice.composes = choice.is_mixed || (collective == Collective::kAllreduce && knobs.hierarchical_allreduce) ||
                      (collective == Collective::kAllgather && knobs.hierarchical_allgather);
    if (choice.transports.empty()) choice.transports = by_default(offer, host);
  }
  return {};
}

}  // namespace roda::engine
