// What a rank's processor does to agree on a step's cached tensors, by the job's size: look up their bits, apply the
// record that says that everybody announced them, and launch them.
//
//   negotiate_step [milliseconds per measurement]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/negotiate/negotiator.h"

namespace {

using namespace roda;
using namespace roda::negotiate;

constexpr int kTensors = 161;  // of a ResNet-50

struct Count final : Outcome {
  void launch(Launch& l) override {
    launched += static_cast<int>(l.tensors.size());
    last = l.sequence;
  }
  void refuse(std::int32_t, const std::string&, const Status&) override {}
  void announce_again(std::int32_t, int) override { std::abort(); }
  void bit_freed(std::int32_t, int) override {}
  void join_done(std::int32_t, std::int32_t) override {}
  void set_added(std::int32_t, const std::vector<std::int32_t>&) override {}
  void set_removed(std::int32_t) override {}
  void shutdown(std::int32_t, const std::string&) override {}
  void all_drained() override {}
  int launched = 0;
  std::uint64_t last = 0;
};

void apply(Negotiator* negotiator, wire::RecordWriter* writer, Outcome* outcome) {
  const Status status = negotiator->apply(writer->end(), outcome);
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

std::vector<Request> make_requests(std::int32_t set, int collective) {
  std::vector<Request> requests(kTensors);
  for (int t = 0; t < kTensors; ++t) {
    Request& r = requests[static_cast<std::size_t>(t)];
    r.set = set;
    r.collective = collective;
    r.name = "gradient/of/some/layer" + std::to_string(t) + "/weight";
    r.shape = {64};
  }
  return requests;
}

// Microseconds of a step, the median. `stride`: every so manieth rank is a member of the process set; `late`: this part
// of the ranks comes in a record of its own.
double step_us(int ranks, int stride, int collective, double late, int milliseconds) {
  Settings settings;
  settings.size = ranks;
  settings.outstanding = kTensors;
  Negotiator negotiator(settings, 0);
  std::int32_t set = 0;
  std::vector<std::int32_t> members;
  for (int r = 0; r < ranks; r += stride) members.push_back(r);
  if (stride > 1) set = negotiator.add_static_set(members);
  std::vector<Request> requests = make_requests(set, collective);
  wire::RecordWriter writer;
  Count count;
  for (const Request& request : requests) {
    for (const std::int32_t rank : members) {
      writer.begin(rank, negotiator.applied());
      writer.request(request);
      apply(&negotiator, &writer, &count);
    }
  }
  wire::RankRanges early, rest;
  for (std::size_t m = 0; m < members.size(); ++m) {
    const bool is_late = static_cast<double>(m) >= (1 - late) * static_cast<double>(members.size());
    (is_late ? rest : early).add(members[m], members[m]);
  }
  std::vector<double> times;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (std::chrono::steady_clock::now() < end || times.size() < 3) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::uint64_t> words((kTensors + 63) / 64);
    for (const Request& r : requests) {
      const auto bit = static_cast<std::size_t>(negotiator.cached_bit(r));
      words.at(bit / 64) |= std::uint64_t{1} << (bit % 64);
    }
    const int before = count.launched;
    for (const wire::RankRanges* who : {&early, &rest}) {
      if (who->empty()) continue;
      writer.begin(who->ranges().front().first, negotiator.applied());
      writer.bits(set, 0, words, who->ranges());
      apply(&negotiator, &writer, &count);
    }
    writer.begin(0, negotiator.applied());
    writer.number(wire::Item::kFinished, set, count.last);
    apply(&negotiator, &writer, &count);
    if (count.launched != before + kTensors) std::abort();
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int milliseconds = argc > 1 ? std::atoi(argv[1]) : 200;
  std::printf("microseconds of %d cached tensors on each rank\n%6s %10s %12s %12s %14s\n", kTensors, "ranks",
              "allreduce", "allgather", "a late tenth", "every 2nd rank");
  for (const int ranks : {16, 64, 256, 1024, 4096, 10000}) {
    std::printf("%6d %10.1f %12.1f %12.1f %14.1f\n", ranks, step_us(ranks, 1, RODA_ALLREDUCE, 0, milliseconds),
                step_us(ranks, 1, RODA_ALLGATHER, 0, milliseconds),
                step_us(ranks, 1, RODA_ALLREDUCE, 0.1, milliseconds),
                step_us(ranks, 2, RODA_ALLREDUCE, 0, milliseconds));
    std::fflush(stdout);
  }
  return 0;
}
