#include "core/engine/affinity.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>

namespace roda::engine {

Status core_of(std::string_view list, int local_rank, int local_size, int* core) {
  int count = 0;
  int found = -1;
  for (std::string_view rest = list; !rest.empty(); ++count) {
    std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    entry.remove_prefix(std::min(entry.find_first_not_of(' '), entry.size()));
    int number = -1;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
    if (error != std::errc() || end != entry.data() + entry.size() || number < 0) {
      return Status::invalid("'" + std::string(entry) + "' is no number of a core");
    }
    if (count == local_rank) found = number;
  }
  if (count < local_size) {
    return Status::invalid("it names " + std::to_string(count) + (count == 1 ? " core for " : " cores for ") +
                           std::to_string(local_size) + " ranks of this host; give one for each");
  }
  *core = found;
  return {};
}

Status pin_to_core(pthread_t thread, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (core < CPU_SETSIZE) CPU_SET(core, &set);
  const int error = ::pthread_setaffinity_np(thread, sizeof set, &set);
  if (error == 0) return {};
  return Status::invalid("core " + std::to_string(core) + " can't be used: " + std::strerror(error));
}

}  // namespace roda::engine
