// Forming groups and giving them up, and what is left behind: descriptors, threads, files of shared memory.
#include <dirent.h>

#include <cstring>
#include <mutex>
#include <set>

#include "plugins/conformance/kit.h"

namespace roda::conformance {
namespace {

// Every member learns from its left neighbour which group this is: members of different groups must not be mixed up.
void check_members(Env& env, Group& group, int id) {
  if (!env.has(RODA_CAP_P2P) || group.size() < 2) return;
  const int mine[2] = {id, group.rank()};
  int theirs[2] = {-1, -1};
  group.pass_around(1, mine, theirs, sizeof theirs);
  CHECK(theirs[0] == id && theirs[1] == group.left(), "group %d: message of group %d rank %d from rank %d", id,
        theirs[0], theirs[1], group.left());
}

void form(Env& env) {
  Group group(env, "form");
  check_members(env, group, 0);
  env.barrier();
}

void single(Env& env) {
  const Group group(env, "single" + std::to_string(env.rank()), {.members = {env.rank()}});
  env.barrier();
}

void several(Env& env) {
  std::vector<std::unique_ptr<Group>> groups;
  for (int i = 0; i < 6; ++i) groups.push_back(std::make_unique<Group>(env, "several" + std::to_string(i)));
  for (int i = 5; i >= 0; --i) check_members(env, *groups[static_cast<std::size_t>(i)], i);
  env.barrier();
  groups.erase(groups.begin() + 1, groups.begin() + 4);
  check_members(env, *groups[0], 10);
  check_members(env, *groups[2], 12);
  env.barrier();
}

void at_once(Env& env) {
  // Started together, formed in whatever order: forming one must not wait for another.
  Group first(env, "first", {.form = false}), second(env, "second", {.form = false});
  Group& early = env.rank() % 2 == 0 ? first : second;
  Group& late = env.rank() % 2 == 0 ? second : first;
  bool early_done = false, late_done = false;
  roda_error error = make_error();
  env.poll_until(
      [&] {
        for (auto [group, done] : {std::pair{&early, &early_done}, std::pair{&late, &late_done}}) {
          if (*done) continue;
          const int32_t code = group->test(&error);
          CHECK(code == RODA_OK || code == RODA_IN_PROGRESS, "group_test: %d %s", code, error.message);
          *done = code == RODA_OK;
        }
        return early_done && late_done;
      },
      "two groups that form at once");
  check_members(env, first, 1);
  check_members(env, second, 2);
  env.barrier();
}

void subgroups(Env& env) {
  std::vector<int> all_reversed;
  for (int i = env.size() - 1; i >= 0; --i) all_reversed.push_back(i);
  Group reversed(env, "reversed", {.members = all_reversed});
  check_members(env, reversed, 1);
  // Overlapping pairs (0,1), (1,2), ...: formed in the same order by all.
  std::vector<std::unique_ptr<Group>> pairs;
  for (int low = 0; low + 1 < env.size(); ++low) {
    if (env.rank() != low && env.rank() != low + 1) continue;
    pairs.push_back(std::make_unique<Group>(env, "pair" + std::to_string(low), Group::Spec{.members = {low, low + 1}}));
    check_members(env, *pairs.back(), low);
  }
  check_members(env, reversed, 2);
  env.barrier();
}

void regroup(Env& env) {
  for (std::uint64_t generation = 1; generation <= 5; ++generation) {
    Group group(env, "same_name", {.generation = generation});
    check_members(env, group, static_cast<int>(generation));
    env.barrier();
  }
}

void missing_member(Env& env) {
  const int absent = env.size() - 1;
  if (env.rank() != absent) {
    Group group(env, "incomplete", {.timeout_ns = 300'000'000, .form = false});
    const Result result = group.form();
    CHECK(result.code == RODA_ERR_TIMEOUT, "a member that never comes: %d %s", result.code, result.error.message);
    CHECK(std::strlen(result.error.message) > 0, "the time-out has no text");
  }
  env.barrier();
  Group after(env, "complete");
  check_members(env, after, 1);
  env.barrier();
}

void contexts(Env& env) {
  for (int i = 0; i < 3; ++i) {
    env.close_context();
    env.barrier();
    env.open_context();
    Group group(env, "context" + std::to_string(i));
    check_members(env, group, i);
    env.barrier();
  }
}

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

const std::vector<Case> kGroupCases = {
    {"group.form", "a group of all ranks forms and talks", 0, 1, form},
    {"group.single", "a group of one forms by itself", 0, 1, single},
    {"group.several", "several groups live side by side, and some end", 0, 1, several},
    {"group.at_once", "two groups form at once, tested in different orders", 0, 2, at_once},
    {"group.subgroups", "reversed and overlapping subgroups", 0, 2, subgroups},
    {"group.regroup", "the same name in the next generation", 0, 1, regroup},
    {"group.missing_member", "forming times out when a member stays away", 0, 2, missing_member},
    {"group.contexts", "contexts are created again after their end", 0, 1, contexts},
    {"leak.nothing_stays", "no descriptor, thread or file outlives its context", 0, 2, nothing_stays},
};

}  // namespace roda::conformance
