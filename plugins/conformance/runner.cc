#include "plugins/conformance/runner.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>

namespace roda::conformance {

namespace {

// How long a launcher's processes wait for one another: longer than a case may last.
constexpr std::uint64_t kLaunchTimeoutNs = 120'000'000'000;

void run_rank(const Case& which, const roda_transport& table, const roda_host* host, World* world, int rank,
              const roda_device* device = nullptr) {
  try {
    Env env(table, host, world, rank, device);
    if (!env.has(which.needs)) throw CaseSkipped("the transport does not offer it");
    which.run(env);
    env.close_context();
    world->finish(rank, Outcome::kPassed, "");
  } catch (const CaseSkipped& skipped) {
    world->finish(rank, Outcome::kSkipped, skipped.what());
  } catch (const std::exception& failed) {
    world->finish(rank, Outcome::kFailed, failed.what());
  }
}

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
  // Beyond the deadline that every wait inside a rank has: it ends only one that no longer runs the kit's code.
  ::alarm(static_cast<unsigned>(case_seconds()) + 50);
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

void reap(World* world, const std::vector<pid_t>& children, bool may_be_killed) {
  for (std::size_t left = children.size(); left > 0;) {
    int status = 0;
    const pid_t ended = ::wait(&status);
    if (ended < 0 && errno != EINTR) return;
    const auto at = std::find(children.begin(), children.end(), ended);
    if (at == children.end()) continue;
    --left;
    for (int rank = 0; rank < world->size(); ++rank) {
      if (children.size() == 1 || rank == at - children.begin()) judge_end(world, rank, status, may_be_killed);
    }
  }
}

// Why it can't run over that transport; "" when it can.
std::string obstacle(const Case& which, const roda_transport& table, int ranks) {
  if (ranks < which.min_ranks) return "needs " + std::to_string(which.min_ranks) + " ranks";
  return (table.capabilities & which.needs) == which.needs ? "" : "the transport does not offer it";
}

Report judge(const World& world, bool kills) {
  Report report;
  int killed = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    const Outcome outcome = world.outcome(rank);
    killed += outcome == Outcome::kKilled ? 1 : 0;
    if (outcome == Outcome::kFailed) {
      const std::string before = report.verdict == Report::kFailed ? report.text + "\n" : "";
      report = {Report::kFailed, before + "rank " + std::to_string(rank) + ": " + world.message(rank), 0};
    } else if (outcome == Outcome::kSkipped && report.verdict == Report::kPassed) {
      report = {Report::kSkipped, world.message(rank), 0};
    }
  }
  if (report.verdict == Report::kPassed && kills && killed != 1) return {Report::kFailed, "no rank was killed", 0};
  return report;
}

}  // namespace

Report run_case(const Case& which, const roda_transport& table, const roda_host* host, int ranks,
                const roda_device* device) {
  const bool as_threads = (table.capabilities & RODA_CAP_IN_PROCESS) != 0;
  if (const std::string why = obstacle(which, table, ranks); !why.empty()) return {Report::kSkipped, why, 0};
  if (which.kills_a_rank && as_threads) return {Report::kSkipped, "ranks are threads", 0};

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
  reap(world, children, which.kills_a_rank);
  Report report = judge(*world, which.kills_a_rank);
  report.milliseconds = (now_ns() - start) / 1'000'000;
  World::destroy(world);
  return report;
}

LaunchedJob::LaunchedJob(const roda_bootstrap* bootstrap, const roda_host* host) : bootstrap_(bootstrap) {
  if (bootstrap_ == nullptr) {
    error_ = "the plugin has no bootstrap, so that --launched can't be used";
    return;
  }
  roda_job_options options{};
  options.struct_size = sizeof options;
  options.timeout_ns = kLaunchTimeoutNs;
  roda_error error = make_error();
  if (bootstrap_->launched_here(host) == 0) {
    error_ = "--launched, but no launcher that the plugin knows started this process";
  } else if (bootstrap_->start(host, &options, &job_, &error) != RODA_OK) {
    error_ = error.message;
  } else {
    rank_ = bootstrap_->rank(job_);
    size_ = bootstrap_->size(job_);
    if (size_ > World::kMaxRanks) error_ = "too many ranks";
  }
}

World* LaunchedJob::meet() {
  char path[64] = {};
  int descriptor = -1;
  World* world = nullptr;
  if (rank_ == 0) {
    world = World::create(size_, &descriptor);
    std::snprintf(path, sizeof path, "/proc/%d/fd/%d", static_cast<int>(::getpid()), descriptor);
  }
  roda_error error = make_error();
  const bool was_told = bootstrap_->broadcast(job_, path, sizeof path, 0, &error) == RODA_OK;
  if (rank_ != 0 && was_told) world = World::attach(path);
  const bool all_see_it = agree(was_told && world != nullptr);
  if (descriptor >= 0) ::close(descriptor);
  if (all_see_it) return world;
  if (world != nullptr) World::destroy(world);
  return nullptr;
}

Report LaunchedJob::run_case(const Case& which, const roda_transport& table, const roda_host* host) {
  if (const std::string why = obstacle(which, table, size_); !why.empty()) return {Report::kSkipped, why, 0};
  if (which.kills_a_rank) return {Report::kSkipped, "ranks belong to the launcher", 0};
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
