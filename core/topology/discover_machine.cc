#include "core/topology/discover_machine.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "core/topology/kernel_files.h"

namespace roda::topology {
namespace {

// The user wants hwloc to describe another machine than this one.
bool hwloc_is_told() {
  const char* const kNames[] = {"HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT"};
  return std::ranges::any_of(kNames, [](const char* name) {
    const char* text = std::getenv(name);
    return text != nullptr && text[0] != '\0';
  });
}

void describe_cpus(const DiscoverOptions& options, const KernelFiles& files, Machine* machine, bool* is_this_machine) {
  Status asked = Status::unavailable("hwloc was not asked");
  const auto ask = [&] {
    asked = ask_hwloc(options.hwloc, machine, is_this_machine);
    if (!asked.ok()) *machine = Machine();
    return asked.ok();
  };
  const bool can_ask = options.root.empty();
  const bool asks_first = can_ask && (options.thorough || hwloc_is_told());
  if (asks_first && ask()) return;
  *is_this_machine = true;
  const Status read = find_cpus(files, machine);
  if (read.ok() || (can_ask && !asks_first && ask())) return;
  machine->absent["cpus"] = read.message() + "; " + asked.message();
}

}  // namespace

Machine discover_machine(const DiscoverOptions& options) {
  const KernelFiles files(options.root);
  Machine machine;
  bool is_this_machine = true;
  describe_cpus(options, files, &machine, &is_this_machine);
  if (!is_this_machine) return machine;
  machine.model = files.line("/sys/class/dmi/id/product_name");
  find_nics(files, &machine);
  find_rdma_devices(files, &machine);
  find_gpus(files, &machine);
  if (options.thorough && !machine.gpus.empty()) find_gpu_links(options.nvml, options.cuda, &machine);
  return machine;
}

Binding binding(const Machine& machine, const CoreBudget& budget) {
  Binding found;
  found.cpu_limit = budget.quota;
  for (const int cpu : machine.cpus) {
    const auto word = static_cast<std::size_t>(cpu) / 64;
    if (word < budget.cores.size() && (budget.cores[word] >> (cpu % 64) & 1) != 0) found.cpus.push_back(cpu);
  }
  return found;
}

}  // namespace roda::topology
