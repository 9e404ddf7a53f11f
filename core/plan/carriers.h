// What may carry tensors: the transports for host memory, and by collective those for devices', as
// HOROVOD_GPU_OPERATIONS and its forms for one collective each have them.
//
// Values, equal on all ranks; any thread.
#pragma once

#include <roda/abi/transport.h>

#include <map>
#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "core/knobs/knobs.h"
#include "core/plan/plan.h"
#include "plugins/base/status.h"
#include "plugins/loader/loader.h"

namespace roda::engine {

// What may carry tensors on devices.
struct DeviceChoice {
  std::vector<const roda_transport*> transports;  // in order of preference
  // Compositions before anything else: the user asked for them, or named beside what works on devices what does not.
  bool composes = false;
  bool is_mixed = false;  // the latter
};

class Carriers {
 public:
  using Transports = std::vector<const roda_transport*>;
  using OnDevice = std::map<schedule::Collective, DeviceChoice>;

  // `for_host`: in order of preference. `on_device`: a collective that is missing goes by those for host memory.
  Carriers(Transports for_host, OnDevice on_device)
      : for_host_(std::move(for_host)), on_device_(std::move(on_device)) {}

  const Transports& for_host() const { return for_host_; }
  const DeviceChoice& on_device(int collective) const;
  // What carries data that are staged for the query, all of it: what was named for devices, not what was for host
  // memory.
  Transports staging(const PlanQuery& query) const;
  // Null: there is none of that name.
  const roda_transport* named(const std::string& name) const;

  // Whether one of them has the collective natively on the memory of the query.
  bool work_on_device(const PlanQuery& query) const;
  // Whether sums can be taken there: an Adasum is as on GPUs of Horovod's then, not as on CPUs.
  bool add_on_device(const PlanQuery& query) const;

 private:
  Transports for_host_;
  OnDevice on_device_;
};

// Whether the transport has the query's collective natively, on its memory.
bool works_on(const roda_transport& transport, const PlanQuery& query);

// Whether it connects all ranks of the query.
bool reaches(const roda_transport& transport, const PlanQuery& query);

// The same tensors in host memory.
PlanQuery in_host_memory(const PlanQuery& query);

// The transports that may carry host tensors, in order of preference: those that reach only this host first (they share
// its memory), then the rest by name. `named` empty: all usable ones but those of a single process; else only those.
Carriers::Transports in_order_of_preference(Carriers::Transports usable, const std::vector<std::string>& named);

// Transports that a job does not use though they are usable, by name, with the answer of their `suits`.
using Refusals = std::map<std::string, Status>;

// The plugins that plans may be made with.
struct Offer {
  plugins::Loader& loader;  // opens what is named
  Refusals refused;
  // The plans are for a cluster with GPUs that somebody described: what works on their memory is taken to be usable
  // there, whatever is missing on this machine.
  bool assumes_gpus = false;

  // Null: the plugin can't carry data.
  const roda_transport* transport(const plugins::PluginRecord& record) const;
  // Why the transport can't carry data here, as the end of a sentence about it; "" when it can.
  std::string why_unusable(const std::string& name) const;
  // "nccl: no libnccl.so.2" for each that is only taken to be usable.
  std::vector<std::string> assumptions() const;
};

// "shm+gloo" -> shm, gloo.
std::vector<std::string> names_in(const std::string& text);

// For every collective. What is named comes in that order, and must be usable; by default whatever works on a device's
// memory comes before `host`, which are those for host memory in their order.
Status choose_for_devices(const Knobs& knobs, const Offer& offer, const Carriers::Transports& host,
                          Carriers::OnDevice* choices);

}  // namespace roda::engine
