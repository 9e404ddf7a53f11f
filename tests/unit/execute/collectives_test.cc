// Every algorithm that is linked in, run over the loop transport against the naive answer.
#include <gtest/gtest.h>

#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "tests/unit/execute/values.h"
#include "tests/unit/execute/world.h"

namespace roda::execute::testing {
namespace {

constexpr int kDtypes[] = {RODA_FLOAT32, RODA_INT64, RODA_FLOAT16, RODA_BFLOAT16, RODA_BOOL};
constexpr int kOps[] = {RODA_SUM, RODA_MIN, RODA_MAX, RODA_PRODUCT};

// One combination: dtype, op and elements (per rank where the collective has counts).
struct Load {
  int dtype;
  int op;
  std::size_t count;
};

std::vector<Load> reduction_loads() {
  std::vector<Load> loads;
  for (const int dtype : kDtypes) {
    for (const std::size_t count : {0, 1, 7, 1000}) loads.push_back({dtype, RODA_SUM, count});
    for (const int op : kOps) loads.push_back({dtype, op, 501});
  }
  return loads;
}

std::vector<Load> copy_loads() {
  std::vector<Load> loads;
  for (const int dtype : kDtypes) {
    for (const std::size_t count : {0, 1, 7, 1000}) loads.push_back({dtype, RODA_SUM, count});
  }
  return loads;
}

// What distinguishes the launches of one test; equal on all ranks.
struct Launches {
  std::uint64_t next = 1;
  void stamp(StageArgs* args, const TransportGroup& group) {
    args->launch = next++;
    args->slot = group.slots() == 0 ? 0 : static_cast<std::uint32_t>(args->launch % group.slots());
  }
};

struct Case {
  const schedule::Algorithm* algorithm;
  int size;
};

std::string name_of(const Case& c) {
  return std::string(schedule::collective_name(c.algorithm->collective)) + "_" + c.algorithm->name + "_" +
         std::to_string(c.size);
}
void PrintTo(const Case& c, std::ostream* out) { *out << name_of(c); }

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const schedule::Algorithm* algorithm : schedule::algorithms()) {
    if (algorithm->collective == schedule::Collective::kAdasum) continue;
    for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 11}) {
      if (algorithm->accepts(size)) all.push_back({algorithm, size});
    }
  }
  return all;
}

// Runs one launch; `in_place` where the collective knows it.
class Launcher {
 public:
  Launcher(Rank& self, const std::string& algorithm, Launches* launches)
      : self_(self), algorithm_(algorithm), launches_(*launches) {}

  void allreduce(const Load& load, bool in_place) {
    Bytes input = encode(values(self_.rank, load.count, load.op), load.dtype);
    Bytes output = in_place ? input : Bytes(input.size(), 0xee);
    const Bytes before = input;
    StageArgs args = start(RODA_ALLREDUCE, load);
    args.count = load.count;
    args.output = output.data();
    args.input = in_place ? output.data() : input.data();
    run(args);
    EXPECT_EQ(output, expected(self_.size, load.count, load.dtype, load.op)) << where(load, in_place);
    EXPECT_EQ(input, before);
  }

  void broadcast(const Load& load, int root, bool in_place) {
    const Bytes data = encode(values(root, load.count, load.op), load.dtype);
    Bytes output = in_place && self_.rank == root ? data : Bytes(data.size(), 0xee);
    StageArgs args = start(RODA_BROADCAST, load);
    args.root = root;
    args.count = load.count;
    args.output = output.data();
    args.input = self_.rank == root && !in_place ? data.data() : nullptr;
    run(args);
    EXPECT_EQ(output, data) << where(load, in_place) << " root " << root;
  }

  void reduce(const Load& load, int root, bool in_place) {
    Bytes input = encode(values(self_.rank, load.count, load.op), load.dtype);
    const Bytes before = input;
    Bytes output(input.size(), 0xee);
    const bool is_root = self_.rank == root;
    StageArgs args = start(RODA_REDUCE, load);
    args.root = root;
    args.count = load.count;
    args.input = input.data();
    args.output = !is_root ? nullptr : in_place ? input.data() : output.data();
    run(args);
    const Bytes sum = expected(self_.size, load.count, load.dtype, load.op);
    if (is_root) {
      EXPECT_EQ(in_place ? input : output, sum) << where(load, in_place) << " root " << root;
    }
    if (!is_root || !in_place) {
      EXPECT_EQ(input, before) << where(load, in_place) << " root " << root;
    }
  }

  void allgather(const Load& load, bool in_place) {
    const auto counts = uneven(load.count);
    Bytes all;
    std::size_t begin = 0;
    for (int r = 0; r < self_.size; ++r) {
      if (r == self_.rank) begin = all.size();
      const Bytes part = encode(values(r, counts[index(r)], load.op), load.dtype);
      all.insert(all.end(), part.begin(), part.end());
    }
    const Bytes input = encode(values(self_.rank, counts[index(self_.rank)], load.op), load.dtype);
    Bytes output(all.size(), 0xee);
    if (in_place && !input.empty()) std::memcpy(output.data() + begin, input.data(), input.size());
    StageArgs args = start(RODA_ALLGATHER, load);
    args.recv_counts = counts.data();
    args.output = output.data();
    args.input = in_place ? output.data() + begin : input.data();
    run(args);
    EXPECT_EQ(output, all) << where(load, in_place);
  }

  void reduce_scatter(const Load& load) {
    const auto counts = uneven(load.count);
    std::size_t begin = 0;
    std::size_t total = 0;
    for (int r = 0; r < self_.size; ++r) {
      if (r == self_.rank) begin = total;
      total += counts[index(r)];
    }
    const std::size_t own = counts[index(self_.rank)];
    Bytes input = encode(values(self_.rank, total, load.op), load.dtype);
    const Bytes before = input;
    Bytes output(own * roda_dtype_size(load.dtype), 0xee);
    StageArgs args = start(RODA_REDUCESCATTER, load);
    args.recv_counts = counts.data();
    args.count = total;
    args.input = input.data();
    args.output = output.data();
    run(args);
    EXPECT_EQ(output, expected(self_.size, own, load.dtype, load.op, begin)) << where(load, false);
    EXPECT_EQ(input, before);
  }

  // Rank s sends `part(s, r)` elements to rank r.
  void alltoall(const Load& load) {
    const auto part = [&](int s, int r) { return load.count == 0 ? 0 : (load.count + index(s * 3 + r * 5)) % 97; };
    std::vector<std::size_t> send_counts, recv_counts;
    std::vector<double> sent, wanted;
    for (int r = 0; r < self_.size; ++r) {
      send_counts.push_back(part(self_.rank, r));
      recv_counts.push_back(part(r, self_.rank));
      const auto out = values(self_.rank, send_counts.back(), load.op, index(r) * 100);
      const auto in = values(r, recv_counts.back(), load.op, index(self_.rank) * 100);
      sent.insert(sent.end(), out.begin(), out.end());
      wanted.insert(wanted.end(), in.begin(), in.end());
    }
    const Bytes input = encode(sent, load.dtype);
    Bytes output(wanted.size() * roda_dtype_size(load.dtype), 0xee);
    StageArgs args = start(RODA_ALLTOALL, load);
    args.send_counts = send_counts.data();
    args.recv_counts = recv_counts.data();
    args.max_count = 97;
    args.input = input.data();
    args.output = output.data();
    run(args);
    EXPECT_EQ(output, encode(wanted, load.dtype)) << where(load, false);
  }

  void barrier() { run(start(RODA_BARRIER, {RODA_FLOAT32, RODA_SUM, 0})); }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  // Some ranks have nothing, some less, some more.
  std::vector<std::size_t> uneven(std::size_t count) const {
    std::vector<std::size_t> counts;
    for (int r = 0; r < self_.size; ++r) counts.push_back(r % 4 == 2 ? 0 : count / (1 + index(r) % 3));
    return counts;
  }

  StageArgs start(int collective, const Load& load) {
    StageArgs args;
    args.collective = collective;
    args.dtype = load.dtype;
    args.op = load.op;
    launches_.stamp(&args, self_.group);
    return args;
  }

  void run(const StageArgs& args) {
    const Status status = self_.run(algorithm_, args);
    EXPECT_TRUE(status.ok()) << algorithm_ << ": " << status.message();
  }

  std::string where(const Load& load, bool in_place) const {
    return algorithm_ + " rank " + std::to_string(self_.rank) + " of " + std::to_string(self_.size) + " " +
           roda_dtype_name(load.dtype) + " " + roda_reduce_op_name(load.op) + " x " + std::to_string(load.count) +
           (in_place ? " in place" : "");
  }

  Rank& self_;
  std::string algorithm_;
  Launches& launches_;
};

void run_all(Launcher& launcher, schedule::Collective collective, int size) {
  using schedule::Collective;
  const bool reduces = schedule::is(collective, RODA_COMBINES);
  for (const Load& load : reduces ? reduction_loads() : copy_loads()) {
    switch (collective) {
      case Collective::kAllreduce:
        launcher.allreduce(load, false);
        launcher.allreduce(load, true);
        break;
      case Collective::kBroadcast:
        launcher.broadcast(load, 0, true);
        launcher.broadcast(load, size - 1, false);
        break;
      case Collective::kAllgather:
        launcher.allgather(load, false);
        launcher.allgather(load, true);
        break;
      case Collective::kReduceScatter:
        launcher.reduce_scatter(load);
        break;
      case Collective::kReduce:
        launcher.reduce(load, 0, true);
        launcher.reduce(load, size - 1, false);
        launcher.reduce(load, size / 2, true);
        break;
      case Collective::kAlltoall:
        launcher.alltoall(load);
        break;
      case Collective::kBarrier:
        launcher.barrier();
        break;
      case Collective::kAdasum:  // adasum_test.cc
      case Collective::kJoin:    // nothing runs for it
        break;
    }
  }
}

class CollectivesTest : public ::testing::TestWithParam<Case> {};

TEST_P(CollectivesTest, TinySlices) {
  const Case& c = GetParam();
  const auto body = [&](Rank& self) {
    Launches launches;
    Launcher launcher(self, c.algorithm->name, &launches);
    run_all(launcher, c.algorithm->collective, c.size);
  };
  run_world(c.size, tiny_options(), body, loop_with_far_ranks());
}

INSTANTIATE_TEST_SUITE_P(Algorithms, CollectivesTest, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return name_of(info.param); });

// The sizes in force by default, and enough data for several slices and blocks.
TEST(CollectivesTest, LargeWithDefaultSizes) {
  for (const schedule::Algorithm* algorithm : schedule::algorithms()) {
    if (!algorithm->accepts(3)) continue;
    run_world(3, ExecuteOptions(), [&](Rank& self) {
      Launches launches;
      Launcher launcher(self, algorithm->name, &launches);
      for (const Load& load : {Load{RODA_FLOAT32, RODA_SUM, 400003}, Load{RODA_BFLOAT16, RODA_MAX, 100003}}) {
        switch (algorithm->collective) {
          case schedule::Collective::kAllreduce:
            launcher.allreduce(load, true);
            break;
          case schedule::Collective::kBroadcast:
            launcher.broadcast(load, 1, true);
            break;
          case schedule::Collective::kAllgather:
            launcher.allgather(load, false);
            break;
          case schedule::Collective::kReduceScatter:
            launcher.reduce_scatter(load);
            break;
          case schedule::Collective::kReduce:
            launcher.reduce(load, 1, true);
            launcher.reduce(load, 2, false);
            break;
          default:
            break;
        }
      }
    });
  }
}

}  // namespace
}  // namespace roda::execute::testing
