#include "core/topology/gpu_links.h"

#include <algorithm>

#include "plugins/base/format.h"

namespace roda::topology {

void keep_places(const Machine& machine, std::vector<Gpu>* shown) {
  for (Gpu& gpu : *shown) {
    const auto known = std::find_if(machine.gpus.begin(), machine.gpus.end(),
                                    [&](const Gpu& g) { return g.pci.address == gpu.pci.address; });
    if (known != machine.gpus.end()) gpu.pci = known->pci;
  }
}

void find_gpu_links(const std::string& nvml_file, const std::string& cuda_file, Machine* machine) {
  const std::size_t on_the_bus = machine->gpus.size();
  const Status nvml = ask_nvml(nvml_file, machine);
  if (nvml.ok()) {
    machine->absent.erase("gpus/links");
  } else if (const Status cuda = ask_cuda(cuda_file, machine); cuda.ok()) {
    machine->absent["gpus/links"] = nvml.message();
  } else {
    machine->absent["gpus/links"] = nvml.message() + "; " + cuda.message();
  }
  if (machine->gpus.size() < on_the_bus) {
    machine->absent["gpus"] =
        roda::format("{} more on the bus that the driver does not show", on_the_bus - machine->gpus.size());
  }
}

}  // namespace roda::topology
