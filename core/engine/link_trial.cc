#include "core/engine/link_trial.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/bootstrap/exchange.h"
#include "core/execute/stage_pool.h"
#include "plugins/base/log.h"
#include "plugins/base/wait_policy.h"
#include "plugins/devices/cpu/cpu_device.h"

namespace roda::engine {
namespace {

using Clock = Store::Clock;

constexpr std::size_t kSmallest = 64 << 10, kLargest = 4 << 20;
constexpr double kLong = 3e-3;                               // seconds: worth measuring; spent on small messages
constexpr std::size_t kFewest = 16;                          // exchanges
constexpr std::size_t kFewestRepeats = 2, kMostRepeats = 8;  // of a transfer
constexpr auto kPatience = std::chrono::milliseconds(500);   // with a transport that was told to end
constexpr std::size_t kTile = 256 << 10;

// What disturbs a measurement makes it longer.
double quickest(const std::vector<double>& times) { return *std::min_element(times.begin(), times.end()); }

template <typename Work>
double seconds(Work work) {
  const Clock::time_point start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What a transport may reach: kept for ever when it does not let go.
struct Reached {
  std::int32_t told = 0;
  std::vector<std::int32_t> data;
  std::unique_ptr<execute::TransportContext> context;
  std::unique_ptr<StoreExchange> exchange;
  std::unique_ptr<execute::TransportGroup> group;
  std::unique_ptr<execute::StagePool> pool;
};

void keep_for_ever(std::unique_ptr<Reached> reached) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::unique_ptr<Reached>>;  // outlives the process's destructors
  const std::scoped_lock lock(mutex);
  kept->push_back(std::move(reached));
}

// A group of two ranks, and what they run on it. Not used again after an error.
class Pair {
 public:
  Pair(const LinkTrial& trial, std::int32_t rank, Clock::time_point deadline)
      : trial_(trial), self_(rank == trial.ranks[0] ? 0 : 1), policy_(trial.spins), deadline_(deadline) {}

  bool leads() const { return self_ == 0; }

  Status open(const roda_host* host, Store& store) {
    RODA_RETURN_IF_ERROR(execute::TransportContext::create(trial_.transport, host, &all_->context));
    all_->exchange = std::make_unique<StoreExchange>(store, trial_.name, self_);
    execute::GroupOptions options;
    options.name = trial_.name;
    options.rank = self_;
    options.world_ranks.assign(trial_.ranks.begin(), trial_.ranks.end());
    options.generation = trial_.generation;
    options.exchange = all_->exchange->table();
    RODA_RETURN_IF_ERROR(execute::TransportGroup::create(*all_->context, std::move(options), &all_->group));
    RODA_RETURN_IF_ERROR(until([this](bool* ready) { return all_->group->test(ready); }));
    all_->pool = std::make_unique<execute::StagePool>(*all_->group, execute::ExecuteOptions());
    all_->data.resize(kLargest / sizeof(std::int32_t));
    return {};
  }

  // The larger of both ranks' values, for both: a message each way.
  Status exchange(std::int32_t mine, std::int32_t* larger) {
    all_->told = mine;
    RODA_RETURN_IF_ERROR(run(RODA_ALLREDUCE, "recursive_doubling", &all_->told, 1));
    *larger = all_->told;
    return {};
  }

  // From the leader.
  Status transfer(std::size_t bytes) {
    return run(RODA_BROADCAST, "binomial", all_->data.data(), bytes / sizeof(std::int32_t));
  }

  // What this rank sent goes on without it.
  Status settle() {
    return until([this](bool* done) {
      all_->context->settle();
      *done = all_->context->is_settled();
      return Status();
    });
  }

 private:
  template <typename Test>
  Status until(Test test) {
    for (std::uint32_t turn = 0;; ++turn) {
      bool done = false;
      RODA_RETURN_IF_ERROR(test(&done));
      if (done) return {};
      all_->context->progress();
      // Both ranks may be on one core.
      turn % 16 == 15 ? WaitPolicy::yield() : policy_.relax(turn);
      if (turn % 64 == 63 && Clock::now() > deadline_) return Status::timeout(trial_.name + " took too long");
    }
  }

  Status run(std::int32_t collective, const char* algorithm, void* data, std::size_t count) {
    execute::StageHandle stage;
    RODA_RETURN_IF_ERROR(all_->pool->acquire(collective, algorithm, 0, &stage));
    execute::StageArgs args;
    args.collective = collective;
    args.dtype = RODA_INT32;
    args.op = RODA_MAX;
    args.input = args.output = data;
    args.count = count;
    args.launch = ++launches_;
    args.generation = trial_.generation;
    RODA_RETURN_IF_ERROR(stage->start(args));
    bool has_ended = false;
    const Status status = until([&](bool* done) {
      Status tested = stage->test(&has_ended);
      *done = has_ended;
      return tested;
    });
    if (!status.ok()) give_up(status, has_ended, stage.get(), data, count * sizeof(std::int32_t));
    return status;
  }

  // A transport that can_try() ends what was aborted, and lets go of its memory; no start of a job hangs on its word.
  void give_up(const Status& cause, bool has_ended, execute::Stage* stage, const void* data, std::size_t bytes) {
    if (!has_ended) stage->abort(cause);
    const Clock::time_point limit = Clock::now() + kPatience;
    while (!has_ended || !all_->group->quiesced(data, bytes)) {
      if (Clock::now() > limit) {
        RODA_LOG(warning, "{} did not end the measurement of {}: {} KiB are kept for it", all_->context->name(),
                 trial_.name, kLargest >> 10);
        return keep_for_ever(std::move(all_));
      }
      all_->context->progress();
      if (!has_ended) static_cast<void>(stage->test(&has_ended));
      WaitPolicy::yield();
    }
  }

  const LinkTrial& trial_;
  int self_;
  WaitPolicy policy_;
  Clock::time_point deadline_;
  std::uint64_t launches_ = 0;
  std::unique_ptr<Reached> all_ = std::make_unique<Reached>();
};

// Seconds of one exchange. The leader says when it is enough.
Status time_exchanges(Pair* pair, double* result) {
  std::vector<double> times;
  double spent = 0;
  for (std::int32_t enough = 0; enough == 0;) {
    const bool is_enough = (times.size() >= kFewest && spent > kLong) || spent > 10 * kLong;
    Status status;
    times.push_back(seconds([&] { status = pair->exchange(pair->leads() && is_enough ? 1 : 0, &enough); }));
    RODA_RETURN_IF_ERROR(status);
    spent += times.back();
  }
  *result = quickest(times);
  return {};
}

// Whether the two quickest are alike: else somebody else had the cores, or the wire.
bool agree(std::vector<double> times) {
  std::partial_sort(times.begin(), times.begin() + 2, times.end());
  return times[1] < 1.25 * times[0];
}

enum Next : std::int32_t { kRepeat, kGrow, kEnd };

Next next_of(const std::vector<double>& times, std::size_t bytes) {
  if (times.size() < kFewestRepeats || (!agree(times) && times.size() < kMostRepeats)) return kRepeat;
  return quickest(times) > kLong || bytes == kLargest ? kEnd : kGrow;
}

// Seconds of a transfer and an exchange, and of how many bytes. The leader says how it goes on.
Status time_transfers(Pair* pair, double* result, std::size_t* bytes) {
  std::vector<double> times;
  bool is_on_credit = true;
  *bytes = kSmallest;
  for (std::int32_t next = kRepeat; next != kEnd;) {
    Status status;
    std::int32_t ignored = 0;
    const double time = seconds([&] {
      status = pair->transfer(*bytes);
      if (status.ok()) status = pair->exchange(0, &ignored);
    });
    RODA_RETURN_IF_ERROR(status);
    if (!std::exchange(is_on_credit, false)) times.push_back(time);
    RODA_RETURN_IF_ERROR(pair->exchange(pair->leads() ? next_of(times, *bytes) : kRepeat, &next));
    if (next != kGrow) continue;
    *bytes *= 4;
    times.clear();
    is_on_credit = true;
  }
  if (pair->leads() && !agree(times)) return Status::unavailable("no two transfers took about the same time");
  *result = quickest(times);
  return {};
}

}  // namespace

bool can_try(const roda_transport& transport) {
  const std::uint64_t needed = RODA_CAP_P2P | RODA_CAP_FAULT_TOLERANT;
  return (transport.capabilities & needed) == needed &&
         (transport.capabilities & (RODA_CAP_IN_PROCESS | RODA_CAP_THREAD_BOUND)) == 0;
}

Status try_link(const LinkTrial& trial, std::int32_t rank, const roda_host* host, Store& store,
                Clock::time_point deadline, Link* link) {
  Pair pair(trial, rank, deadline);
  RODA_RETURN_IF_ERROR(pair.open(host, store));
  double exchange = 0, transfer = 0;
  std::size_t bytes = 0;
  RODA_RETURN_IF_ERROR(time_exchanges(&pair, &exchange));
  const Status timed = time_transfers(&pair, &transfer, &bytes);
  if (timed.ok() || timed.code() == RODA_ERR_UNAVAILABLE) RODA_RETURN_IF_ERROR(pair.settle());
  RODA_RETURN_IF_ERROR(timed);
  const double alone = std::max(transfer - exchange, transfer / 10);
  *link = {exchange * 5e5, exchange * 2.5e5, static_cast<double>(bytes) / alone / 1e9};
  return {};
}

void try_processor(Links* links) {
  std::vector<float> a(kTile / sizeof(float), 1), b = a, sum = a;
  const void* const sources[] = {a.data(), b.data()};
  std::vector<double> reduces, copies;
  for (int i = 0; i < 9; ++i) {
    reduces.push_back(seconds([&] { cpu::reduce_many(sum.data(), sources, 2, a.size(), RODA_FLOAT32, RODA_SUM); }));
    copies.push_back(seconds([&] { std::memcpy(b.data(), sum.data(), kTile); }));
  }
  links->reduce_GBps = kTile / quickest(reduces) / 1e9;
  links->copy_GBps = kTile / quickest(copies) / 1e9;
}

}  // namespace roda::engine
