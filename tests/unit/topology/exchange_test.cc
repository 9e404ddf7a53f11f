// Ranks as threads that meet over one store.
#include "core/topology/exchange.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/topology/json.h"
#include "tests/unit/folder.h"
#include "tests/unit/topology/samples.h"

namespace roda::topology {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Counts what is put below a prefix.
class CountingStore : public LocalStore {
 public:
  std::atomic<int> shapes = 0;

 protected:
  Status tell(StoreOp op, const std::string& key, std::string_view value, int rank) override {
    if (op == StoreOp::kPut && key.find("/shape/") != std::string::npos) ++shapes;
    return LocalStore::tell(op, key, value, rank);
  }
};

struct Outcome {
  Status status;
  Topology topology;
};

std::vector<Outcome> share_among(Store& store, const std::vector<View>& views, const std::vector<std::string>& hosts) {
  const int size = static_cast<int>(views.size());
  std::vector<Outcome> outcomes(views.size());
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      Knobs knobs;
      knobs.hostname = hosts[at(rank)];
      const auto deadline = Store::Clock::now() + std::chrono::seconds(60);
      std::vector<RankReport> reports;
      Outcome& mine = outcomes[at(rank)];
      mine.status = discover(store, rank, size, knobs, note_of(views[at(rank)]), "d", deadline, &reports);
      if (mine.status.ok()) mine.status = find_hosts(reports, &mine.topology);
      if (mine.status.ok()) {
        mine.status = share(store, rank, reports, views[at(rank)], "t", deadline, &mine.topology);
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return outcomes;
}

void expect_one_view(const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_EQ(outcome.topology, outcomes[0].topology);
  }
}

View view_of(Machine machine) { return {std::move(machine), std::nullopt}; }

TEST(Exchange, MachinesOfOneKindSendNothing) {
  CountingStore store;
  std::vector<View> views;
  views.assign(4, view_of(sample_machine()));
  const auto outcomes = share_among(store, views, {"a", "a", "b", "b"});
  expect_one_view(outcomes);
  const Topology& topology = outcomes[0].topology;
  ASSERT_EQ(topology.machines.size(), 1u);
  EXPECT_EQ(topology.machines[0].machine, sample_machine());
  ASSERT_EQ(topology.hosts.size(), 2u);
  EXPECT_EQ(topology.hosts[1].name, "b");
  EXPECT_EQ(topology.hosts[1].ranks, (std::vector<int>{2, 3}));
  EXPECT_NE(topology.hosts[0].place.find("boot "), std::string::npos);
  ASSERT_EQ(topology.bindings.size(), 4u);
  EXPECT_EQ(topology.bindings[3], binding(sample_machine(), core_budget()));
  EXPECT_EQ(store.shapes, 0);
}

TEST(Exchange, AnotherKindTravelsOnce) {
  CountingStore store;
  Machine other = sample_machine();
  other.model = "other";
  std::vector<View> views;
  for (int i = 0; i < 6; ++i) views.push_back(view_of(i < 2 ? sample_machine() : other));
  const auto outcomes = share_among(store, views, {"a", "a", "b", "b", "c", "c"});
  expect_one_view(outcomes);
  EXPECT_EQ(outcomes[0].topology.machines.size(), 2u);
  EXPECT_EQ(outcomes[0].topology.hosts[2].machine, 1);
  EXPECT_EQ(outcomes[0].topology.machines[1].machine, other);
  EXPECT_EQ(store.shapes, 2);
}

TEST(Exchange, RanksOfOneHostThatDifferFollowTheLowest) {
  LocalStore store;
  Machine other = sample_machine();
  other.numa_nodes[0].memory_gib = 8;
  testing::internal::CaptureStderr();
  const auto outcomes = share_among(store, {view_of(sample_machine()), view_of(other)}, {"a", "a"});
  const std::string log = testing::internal::GetCapturedStderr();
  expect_one_view(outcomes);
  ASSERT_EQ(outcomes[0].topology.machines.size(), 1u);
  EXPECT_EQ(outcomes[0].topology.machines[0].machine, sample_machine());
  EXPECT_NE(
      log.find(
          "rank 0 and rank 1 are on one host, a, and see different machines: /numa_nodes/0/memory_gib is 16 for rank "
          "0 and 8 for rank 1; rank 0's view counts"),
      std::string::npos)
      << log;
}

TEST(Exchange, RanksOfOneHostThatContradictEachOtherAreEverybodysError) {
  LocalStore store;
  Machine other = sample_machine();
  other.cores = {{0, 1}, {2, 3}};
  const auto outcomes =
      share_among(store, {view_of(sample_machine()), view_of(sample_machine()), view_of(other), view_of(other)},
                  {"elsewhere", "a", "a", "a"});
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.status.code(), RODA_ERR_PRECONDITION);
    EXPECT_EQ(outcome.status.rank(), 2);
    EXPECT_NE(outcome.status.message().find(
                  "rank 1 and ranks 2-3 are on one host, a, and see different machines: /cores/0 is \"0,2\" for rank 1 "
                  "and \"0-1\" for ranks 2-3; /cores/1 is \"1,3\" for rank 1 and \"2-3\" for ranks 2-3; give every "),
              std::string::npos)
        << outcome.status.message();
  }
}

// A rank that is told less than its neighbours contradicts nobody.
TEST(Exchange, WhatOneRankCannotKnowIsNoContradiction) {
  LocalStore store;
  Machine other = sample_machine();
  other.cores.clear();
  other.caches.clear();
  other.gpus.clear();
  other.packages[0].model = "unknown";
  const auto outcomes = share_among(store, {view_of(sample_machine()), view_of(other)}, {"a", "a"});
  expect_one_view(outcomes);
  EXPECT_EQ(outcomes[0].topology.machines[0].machine, sample_machine());
}

TEST(Exchange, TooManyKindsAreBounded) {
  LocalStore store;
  std::vector<View> views;
  std::vector<std::string> hosts;
  for (int i = 0; i < static_cast<int>(kMostShapes) + 2; ++i) {
    Machine machine;
    machine.model = "kind " + std::to_string(i);
    views.push_back(view_of(machine));
    hosts.push_back("h" + std::to_string(i));
  }
  const auto outcomes = share_among(store, views, hosts);
  expect_one_view(outcomes);
  EXPECT_EQ(outcomes[0].topology.machines[5].machine.model, "kind 5");
  EXPECT_TRUE(outcomes[0].topology.machines.back().machine.absent.contains("machine"));
}

TEST(Exchange, ANoteThatIsNoneMakesAnUnknownMachine) {
  LocalStore store;
  std::vector<RankReport> reports(1);
  reports[0].note = "nonsense";
  Topology topology;
  ASSERT_TRUE(find_hosts(reports, &topology).ok());
  ASSERT_TRUE(share(store, 0, reports, view_of(sample_machine()), "t", Store::Clock::now(), &topology).ok());
  EXPECT_TRUE(topology.machines[0].machine.absent.contains("machine"));
}

TEST(Exchange, FilesMustBeTheSameEverywhere) {
  LocalStore store;
  View with_file;
  with_file.file = Topology{{{"m", sample_machine()}}, {}, {}, {}, {}};
  View with_another = with_file;
  with_another.file->machines[0].machine.model = "another";
  const View without = view_of(sample_machine());
  const auto outcomes = share_among(store, {with_file, without, with_another, with_file}, {"a", "a", "a", "a"});
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.status.message(),
              "ranks 1-2 read another RODA_TOPOLOGY_FILE than rank 0, or none; give every rank the same file");
    EXPECT_EQ(outcome.status.rank(), 1);
  }
}

TEST(Exchange, AFileTakesThePlaceOfWhatIsThere) {
  LocalStore store;
  View view;
  view.file = Topology{{{"m", sample_machine()}}, {}, {}, {}, {}};
  auto outcomes = share_among(store, {view, view}, {"a", "b"});
  expect_one_view(outcomes);
  EXPECT_EQ(outcomes[0].topology.hosts[1].name, "b");
  EXPECT_EQ(outcomes[0].topology.machines[0].name, "m");

  LocalStore second;
  view.file->hosts = {{"x", "", 0, {0, 1}}};
  outcomes = share_among(second, {view, view}, {"a", "b"});
  for (const Outcome& outcome : outcomes) {
    EXPECT_NE(outcome.status.message().find("contradicts the job: it has 1 host, the job runs on 2"),
              std::string::npos);
  }
}

TEST(Look, ReadsTheFileOrNamesIt) {
  const Folder folder;
  Knobs knobs;
  knobs.topology_file = folder.path() + "/t.json";
  View view;
  EXPECT_NE(look(knobs, {}, &view).message().find("/t.json' can't be read"), std::string::npos);
  ASSERT_TRUE(write_file(knobs.topology_file, sample_topology()).ok());
  ASSERT_TRUE(look(knobs, {}, &view).ok());
  EXPECT_EQ(*view.file, sample_topology());
  EXPECT_EQ(alone(view, "here"), sample_topology());
}

TEST(Shorten, LeavesOutWhatWouldNotFit) {
  Machine machine = sample_machine();
  shorten(&machine);
  EXPECT_EQ(machine, sample_machine());
  for (int cpu = 4; cpu < 16000; ++cpu) {
    machine.cpus.push_back(cpu);
    machine.cores.push_back({cpu});
  }
  shorten(&machine);
  EXPECT_TRUE(machine.cores.empty());
  EXPECT_TRUE(machine.caches.empty());
  EXPECT_EQ(machine.cpus.size(), 16000u);
  EXPECT_NE(machine.absent.at("cores").find("65536 are exchanged"), std::string::npos);
  EXPECT_LE(to_json(machine).size(), Store::kMaxValue);
  machine.model = std::string(Store::kMaxValue, 'x');
  shorten(&machine);
  EXPECT_EQ(machine.model, "");
  EXPECT_TRUE(machine.absent.contains("machine"));
}

}  // namespace
}  // namespace roda::topology
