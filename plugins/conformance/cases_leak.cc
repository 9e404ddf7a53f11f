// What is left behind: descriptors, threads, files of shared memory.
#include <dirent.h>

#include <mutex>
#include <set>
#include <string>

#include "plugins/conformance/kit.h"

namespace roda::conformance {
namespace {

// One at a time: ranks that are threads would count each other's descriptor of the folder.
std::set<std::string> names_in(const char* folder) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  std::set<std::string> names;
  DIR* open = ::opendir(folder);
  if (open == nullptr) return names;
  while (const dirent* entry = ::readdir(open)) names.insert(entry->d_name);
  ::closedir(open);
  return names;
}

void use(Env& env, std::uint64_t generation) {
  env.open_context();
  {
    Group group(env, "leak", {.generation = generation});
    std::vector<char> in(100000), out(100000);
    if (env.has(RODA_CAP_P2P)) group.pass_around(1, out.data(), in.data(), in.size());
    if (env.has(RODA_CAP_ALLOCATE)) {
      roda_memory memory = group.allocate(100000);
      env.table().memory_free(group.get(), &memory);
    }
    env.barrier();
    if (generation % 2 == 0) group.abort(RODA_ERR_PRECONDITION, 0, "the kit ends an odd round with an abort");
  }
  env.close_context();
  env.barrier();
}

void nothing_stays(Env& env) {
  env.close_context();
  use(env, 1);  // what a library keeps from its first use for good is not a leak
  use(env, 2);
  env.barrier();
  const std::size_t descriptors = names_in("/proc/self/fd").size(), threads = names_in("/proc/self/task").size();
  const std::size_t files = names_in("/dev/shm").size();
  for (std::uint64_t generation = 3; generation <= 6; ++generation) use(env, generation);
  // Ranks that are threads count each other's: everyone must be through.
  env.barrier();
  const std::size_t descriptors_now = names_in("/proc/self/fd").size();
  CHECK(descriptors_now <= descriptors, "%zu descriptors have become %zu", descriptors, descriptors_now);
  env.poll_until([threads] { return names_in("/proc/self/task").size() <= threads; }, "threads that have ended");
  // Other programs have files there, too, which come and go.
  env.poll_until([files] { return names_in("/dev/shm").size() <= files; }, "files in /dev/shm to go");
  env.barrier();
}

}  // namespace

const std::vector<Case> kLeakCases = {
    {"leak.nothing_stays", "no descriptor, thread or file outlives its context", 0, 2, kPlain, nothing_stays},
};

}  // namespace roda::conformance
