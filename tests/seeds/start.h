// How the ranks of a job come to their engines: the rendezvous, which is a launcher's and may be lost, and a rank's way
// through it, as core/engine/start.cc goes.
#pragma once

#include <functional>
#include <memory>

#include "core/bootstrap/store_server.h"
#include "core/engine/engine.h"
#include "tests/seeds/machine.h"

namespace roda::seeds {

class Rendezvous {
 public:
  // For the fiber `number` that its thread belongs to; until `is_over` is true, for which `bell` rings.
  void serve(Machine& machine, const void* bell, const std::function<bool()>& is_over);
  bool has_begun() const { return server_ != nullptr; }
  // A rank's: waits for it to begin. False: the job's end comes first.
  bool await(Machine& machine) const;
  // Whether all ranks are there; fills in the rank's control plane and its client of the store.
  Status come_together(engine::Parts* own) const;

 private:
  std::unique_ptr<StoreServer> server_;
};

}  // namespace roda::seeds
