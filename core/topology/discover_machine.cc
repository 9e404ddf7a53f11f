#include "core/topology/discover_machine.h"

#include "core/topology/kernel_files.h"

namespace roda::topology {
Machine discover_machine(const DiscoverOptions& options) {
  const KernelFiles files(options.root);
  Machine machine;
  if (const Status read = find_cpus(files, &machine); !read.ok()) machine.absent["cpus"] = read.message();
  machine.model = files.line("/sys/class/dmi/id/product_name");
  find_nics(files, &machine);
  find_rdma_devices(files, &machine);
  find_gpus(files, &machine);
  if (options.thorough) find_cpu_models(files, &machine);
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
