#include "plugins/conformance/launched.h"

#include <unistd.h>

#include <cstdio>

namespace roda::conformance {
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
