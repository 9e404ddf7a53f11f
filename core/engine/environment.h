// What a process has before and without a job: its plugins, the services they are given, and the plans they allow.
#pragma once

#include <memory>
#include <string>

#include "core/bootstrap/join.h"
#include "core/knobs/knobs.h"
#include "core/plan/carriers.h"
#include "core/plan/planner.h"
#include "plugins/loader/host.h"
#include "plugins/loader/loader.h"

namespace roda::engine {

// One per process, made at the first call and never destroyed: plugins can't be unloaded soundly.
class Environment {
 public:
  static Environment& get();

  const roda_host* host() const { return host_.table(); }
  plugins::Loader& loader() { return loader_; }

  // The planner that these settings allow. A transport that HOROVOD_CPU_OPERATIONS names and that can't be used is an
  // error with the reason; nothing is used in its place. So is a value that a plugin's own setting can't have.
  // `for_gpus`: the plans are for a cluster with GPUs that somebody described (Offer::assumes_gpus).
  Status make_planner(const Knobs& knobs, const Refusals& refused, std::unique_ptr<Planner>* planner,
                      bool for_gpus = false);

  // Transports that can't serve this process where it is one of so many ranks of this host. Plugins that were put off
  // are not asked: make_planner opens those that are named.
  Refusals refusals(int ranks);

  // The plugin that brings this job together: HOROVOD_CONTROLLER's choice if it names one; else, where neither ours nor
  // a launcher inside the plugin's has set ranks, one whose launcher started this process. Null where there is none.
  Status find_bootstrap(const Knobs& knobs, const Members& members, const DeclaredJob& declared,
                        const roda_bootstrap** bootstrap);

  std::string describe_plugins(bool as_json);

 private:
  Environment();
  Status named_bootstrap(const std::string& name, const roda_bootstrap** bootstrap);
  plugins::Host host_;
  plugins::Loader loader_;
};

}  // namespace roda::engine
