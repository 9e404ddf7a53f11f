#include "plugins/conformance/runner.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <thread>

namespace roda::conformance {

namespace {

// Beyond the deadline that every wait inside a rank has: only a rank that no longer runs the kit's code gets here.
int kill_seconds() { return case_seconds() + 50; }

void run_threads(const Case& which, const roda_transport& table, const roda_host* host, World* world) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world->size(); ++rank) {
    threads.emplace_back([&, rank] { run_rank(which, table, host, world, rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

template <typename Body>
pid_t fork_child(Body&& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(static_cast<unsigned>(kill_seconds()) + 10);  // in case the parent is killed
  body();
  std::fflush(nullptr);
  ::_exit(0);
}

// How the process of a rank (of all ranks, when they are threads) ended, if that is the news.
void judge_end(World* world, int rank, int status, bool may_be_killed) {
  world->set_dead(rank);
  if (world->outcome(rank) != Outcome::kRunning) return;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && may_be_killed) {
    world->finish(rank, Outcome::kKilled, "");
  } else if (WIFSIGNALED(status)) {
    world->finish(rank, Outcome::kFailed, std::string("crashed: ") + ::strsignal(WTERMSIG(status)));
  } else {
    world->finish(rank, Outcome::kFailed,
                  "ended with exit code " + std::to_string(WEXITSTATUS(status)) + " in mid-case");
  }
}

void reap(World* world, std::vector<pid_t> children, bool may_be_killed) {
  const std::int64_t give_up = now_ns() + kill_seconds() * std::int64_t{1'000'000'000};
  std::size_t left = children.size();
  while (left > 0) {
    for (std::size_t i = 0; i < children.size(); ++i) {
      int status = 0;
      if (children[i] <= 0 || ::waitpid(children[i], &status, WNOHANG) != children[i]) continue;
      children[i] = 0;
      --left;
      for (int rank = 0; rank < world->size(); ++rank) {
        if (children.size() == 1 || rank == static_cast<int>(i)) judge_end(world, rank, status, may_be_killed);
      }
    }
    if (now_ns() > give_up) {
      for (const pid_t child : children) {
        if (child > 0) ::kill(child, SIGKILL);
      }
      may_be_killed = false;
    }
    const timespec pause{0, 500'000};
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace

void run_rank(const Case& which, const roda_transport& table, const roda_host* host, World* world, int rank,
              const roda_device* device) {
  try {
    Env env(table, host, world, rank, device);
    if (!env.has(which.needs)) throw CaseSkipped("the transport does not offer it");
    if ((which.flags & kFaultTolerant) != 0 && !env.has(RODA_CAP_FAULT_TOLERANT))
      throw CaseSkipped("not fault-tolerant");
    which.run(env);
    env.close_context();
    world->finish(rank, Outcome::kPassed, "");
  } catch (const CaseSkipped& skipped) {
    world->finish(rank, Outcome::kSkipped, skipped.what());
  } catch (const std::exception& failed) {
    world->finish(rank, Outcome::kFailed, failed.what());
  }
}

Report judge(const World& world, bool kills) {
  Report report;
  int killed = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    const Outcome outcome = world.outcome(rank);
    const std::string line =
        (report.text.empty() ? "" : "\n") + std::string("rank ") + std::to_string(rank) + ": " + world.message(rank);
    killed += outcome == Outcome::kKilled ? 1 : 0;
    if (outcome == Outcome::kFailed) {
      if (report.verdict != Report::kFailed) report.text.clear();
      report.text += report.text.empty() ? line.substr(line[0] == '\n' ? 1 : 0) : line;
      report.verdict = Report::kFailed;
    } else if (outcome == Outcome::kSkipped && report.verdict == Report::kPassed) {
      report = {Report::kSkipped, world.message(rank), 0};
    }
  }
  if (report.verdict == Report::kPassed && kills && killed != 1) return {Report::kFailed, "no rank was killed", 0};
  return report;
}

Report run_case(const Case& which, const roda_transport& table, const roda_host* host, int ranks,
                const roda_device* device) {
  const bool as_threads = (table.capabilities & RODA_CAP_IN_PROCESS) != 0;
  const bool kills = (which.flags & kKillsARank) != 0;
  if (ranks < which.min_ranks) return {Report::kSkipped, "needs " + std::to_string(which.min_ranks) + " ranks", 0};
  if (kills && as_threads) return {Report::kSkipped, "ranks are threads", 0};
  if ((table.capabilities & which.needs) != which.needs)
    return {Report::kSkipped, "the transport does not offer it", 0};

  World* world = World::create(ranks);
  if (world == nullptr) return {Report::kFailed, "no shared memory for the kit", 0};
  const std::int64_t start = now_ns();
  std::fflush(nullptr);
  std::vector<pid_t> children;
  if (as_threads) {
    children.push_back(fork_child([&] { run_threads(which, table, host, world); }));
  } else {
    for (int rank = 0; rank < ranks; ++rank) {
      children.push_back(fork_child([&] { run_rank(which, table, host, world, rank, device); }));
    }
  }
  reap(world, children, kills);
  Report report = judge(*world, kills);
  report.milliseconds = (now_ns() - start) / 1'000'000;
  World::destroy(world);
  return report;
}

namespace {

// Longer than a case may last.
constexpr std::uint64_t kPatience = 120'000'000'000;

}  // namespace

LaunchedJob::LaunchedJob(const roda_bootstrap& bootstrap, const roda_host* host) : bootstrap_(bootstrap) {
  roda_job_options options{};
  options.struct_size = sizeof options;
  options.timeout_ns = kPatience;
  roda_error error = make_error();
  if (bootstrap_.launched_here(host) == 0) {
    error_ = "--launched, but no launcher that the plugin knows started this process";
  } else if (bootstrap_.start(host, &options, &job_, &error) != RODA_OK) {
    error_ = error.message;
  } else {
    rank_ = bootstrap_.rank(job_);
    size_ = bootstrap_.size(job_);
    if (size_ > World::kMaxRanks) error_ = "too many ranks";
  }
}

LaunchedJob::~LaunchedJob() {
  if (job_ != nullptr) bootstrap_.finish(job_);
}

bool LaunchedJob::agree(bool mine) {
  roda_error error = make_error();
  std::int32_t all = 0;
  return bootstrap_.agree(job_, mine ? 1 : 0, &all, &error) == RODA_OK && all != 0;
}

World* LaunchedJob::meet() {
  char path[64] = {};
  int descriptor = -1;
  World* world = nullptr;
  if (rank_ == 0) {
    world = World::create_shared(size_, &descriptor);
    std::snprintf(path, sizeof path, "/proc/%d/fd/%d", static_cast<int>(::getpid()), descriptor);
  }
  roda_error error = make_error();
  const bool was_told = bootstrap_.broadcast(job_, path, sizeof path, 0, &error) == RODA_OK;
  if (rank_ != 0 && was_told) world = World::attach(path);
  const bool all_see_it = agree(was_told && world != nullptr);
  if (descriptor >= 0) ::close(descriptor);
  if (all_see_it) return world;
  if (world != nullptr) World::destroy(world);
  return nullptr;
}

Report LaunchedJob::run_case(const Case& which, const roda_transport& table, const roda_host* host) {
  if (size_ < which.min_ranks) return {Report::kSkipped, "needs " + std::to_string(which.min_ranks) + " ranks", 0};
  if ((which.flags & kKillsARank) != 0) return {Report::kSkipped, "ranks belong to the launcher", 0};
  if ((table.capabilities & which.needs) != which.needs) {
    return {Report::kSkipped, "the transport does not offer it", 0};
  }
  World* world = meet();
  if (world == nullptr) return {Report::kFailed, "no memory that all ranks share: are they on one host?", 0};
  const std::int64_t start = now_ns();
  run_rank(which, table, host, world, rank_);
  const bool all_through = agree(true);  // nobody judges before the last is through
  Report report = all_through ? judge(*world, false) : Report{Report::kFailed, "a rank was lost", 0};
  report.milliseconds = (now_ns() - start) / 1'000'000;
  World::destroy(world);
  return report;
}

}  // namespace roda::conformance
