#include <algorithm>
#include <ctime>

#include <numeric>
#include <span>
#include <utility>

#include "tools/common/models.h"
#include "tools/perf/flag.h"
#include "tools/perf/measure.h"
#include "tools/perf/pattern.h"

namespace roda::perf {

namespace {

constexpr std::int32_t kDtype = RODA_FLOAT32;
constexpr std::size_t kBucket = (16u << 20) / sizeof(float);  // elements, as horovod.torch has it

// The sizes of buckets that hold the tensors, in their order.
std::vector<std::size_t> in_buckets(const std::vector<std::size_t>& sizes) {
  std::vector<std::size_t> buckets;
  for (const std::size_t size : sizes) {
    if (buckets.empty() || buckets.back() + size > kBucket) buckets.push_back(0);
    buckets.back() += size;
  }
  return buckets;
}

// A model's gradients in memory of their own, one buffer per tensor, as a framework holds them.
class Gradients {
 public:
  Gradients(const std::string& name, const std::vector<std::size_t>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      tensors_.emplace_back(memory_.emplace_back(sizes[i]));
      names_.push_back(name + "." + std::to_string(i));
      shapes_.push_back(static_cast<std::int64_t>(sizes[i]));
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      roda_op op = Session::make_op(RODA_ALLREDUCE, names_[i].c_str());
      op.dtype = kDtype;
      op.ndim = 1;
      op.shape = &shapes_[i];
      op.input = op.output = tensors_[i].data();
      ops_.push_back(op);
    }
  }
  ~Gradients() {
    for (void* owner : owners_) roda_give_memory_back(owner);
  }
  Gradients(const Gradients&) = delete;

  // Into memory that peers reach, where there is some: after the first run.
  void move_within_reach() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      void *data = nullptr, *owner = nullptr;
      if (roda_lend_memory(0, tensors_[i].size_bytes(), &data, &owner, nullptr) != RODA_OK) return;
      owners_.push_back(owner);
      tensors_[i] = {static_cast<float*>(data), tensors_[i].size()};
      memory_[i] = {};
      ops_[i].input = ops_[i].output = data;
    }
  }

  void run_one_by_one() const {
    std::vector<Pending> pending;
    pending.reserve(ops_.size());
    for (const roda_op& op : ops_) pending.push_back(Session::submit(&op, 1));
    for (Pending& operation : pending) operation.wait();
  }

  void run_as_group() const { Session::submit(ops_.data(), static_cast<std::int32_t>(ops_.size())).wait(); }

  void fill(const Pattern& pattern) const {
    for (auto& tensor : tensors_) pattern.fill(tensor.data(), 0, tensor.size());
  }
  bool matches(const Pattern& pattern, double tolerance) const {
    return std::ranges::all_of(tensors_, [&](const auto& tensor) {
      return tolerance == 0 ? pattern.matches(tensor.data(), 0, tensor.size())
                            : pattern.is_near(tensor.data(), 0, tensor.size(), tolerance);
    });
  }

 private:
  std::vector<std::vector<float>> memory_;
  std::vector<void*> owners_;  // of memory that was lent
  std::vector<std::span<float>> tensors_;
  std::vector<std::string> names_;
  std::vector<std::int64_t> shapes_;
  std::vector<roda_op> ops_;
};

struct Way {
  const char* label;
  Gradients* gradients;
  void (Gradients::*run)() const;
  std::vector<double> times = {};
  bool right = true;
};

bool check(const Session& session, double tolerance, Way* way) {
  way->gradients->fill(Pattern::input(kDtype, RODA_SUM, session.rank()));
  (way->gradients->*way->run)();
  const bool right = way->gradients->matches(Pattern::reduced(kDtype, RODA_SUM, session.size()), tolerance);
  return max_over_ranks(right ? 0 : 1) == 0;
}

void time_in_turn(const Session& session, const CommandLine& options, std::vector<Way>* ways) {
  for (const Way& way : *ways) way.gradients->fill(Pattern::input(kDtype, RODA_SUM, session.rank()));
  const int warmup = options.warmup >= 0 ? options.warmup : 3;
  const int timed = options.iterations >= 0 ? options.iterations : 15;
  for (int i = -warmup; i < timed; ++i) {
    for (Way& way : *ways) {
      const double start = now_us();
      (way.gradients->*way.run)();
      if (i >= 0) way.times.push_back(now_us() - start);
    }
  }
}

// What a tensor costs that all ranks know and that has next to nothing to move: submitting it, agreeing on it and
// ending it, the wait for the other ranks included.
void measure_agreeing(const CommandLine& options, std::size_t count, Report* report) {
  constexpr int kWarmup = 20;
  constexpr int kSteps = 200;
  const Gradients elements("perf.element", std::vector<std::size_t>(count, 1));
  for (const auto& [run, how] :
       {std::pair(&Gradients::run_one_by_one, "one by one"), std::pair(&Gradients::run_as_group, "as a group")}) {
    double begin = 0;
    for (int i = -kWarmup; i < kSteps; ++i) {
      if (i == 0) begin = processor_us();
      (elements.*run)();
    }
    const double each = (processor_us() - begin) / (kSteps * static_cast<double>(count));
    report->note(options.model + "'s " + std::to_string(count) + " tensors of one element, " + how,
                 max_over_ranks(each), "us of a rank's processor time each");
  }
}

}  // namespace

double processor_us() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

bool measure_model(const Session& session, const CommandLine& options, Report* report) {
  const std::vector<std::size_t> sizes = tools::gradient_sizes(options.model);
  const std::size_t total = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  Gradients single("perf.one", {total});
  Gradients tensors("perf.async", sizes);
  Gradients group("perf.group", sizes);
  Gradients buckets("perf.bucket", in_buckets(sizes));
  std::vector<Way> ways = {{"one_call", &single, &Gradients::run_one_by_one},
                           {"one_by_one", &tensors, &Gradients::run_one_by_one},
                           {"group", &group, &Gradients::run_as_group},
                           {"buckets", &buckets, &Gradients::run_one_by_one}};
  single.run_one_by_one();
  buckets.move_within_reach();
  bool all_right = true;
  // What an earlier sum lost may be in the next one.
  const double tolerance = 2 * tolerance_of({RODA_ALLREDUCE, kDtype, RODA_SUM, total * sizeof(float)}, session.size());
  for (Way& way : ways) {
    if (options.check) way.right = check(session, tolerance, &way);
    all_right = all_right && way.right;
  }
  time_in_turn(session, options, &ways);
  const Cores cores = find_cores(session);
  for (const Way& way : ways) {
    const Case what{RODA_ALLREDUCE, kDtype, RODA_SUM, total * sizeof(float), true};
    report->add({what, options.model + "." + way.label, what.bytes, total, session.size(), summarise(way.times),
                 options.check, way.right, what_runs(what), cores});
  }
  const double base = summarise(ways[0].times).median;
  for (const Way& way : ways) {
    report->note(options.model + "." + way.label + " / one_call", summarise(way.times).median / base, "");
  }
  measure_agreeing(options, sizes.size(), report);
  return all_right;
}

}  // namespace roda::perf
