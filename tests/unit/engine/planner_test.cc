// Plans over hosts, from transports that exist only as tables of capabilities.
#include "core/plan/planner.h"
#include "core/execute/stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/execute/stage.h"
#include "core/plan/explain.h"
#include "core/topology/lay_out.h"

namespace roda::engine {
namespace {

using Levels = std::vector<topology::Level>;

roda_transport transport(const char* name, std::uint64_t capabilities) {
  roda_transport t{};
  t.struct_size = sizeof t;
  t.name = name;
  t.capabilities = capabilities;
  return t;
}

constexpr std::uint64_t kMemory = RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_MAP;
const roda_transport kNear = transport("near", kMemory | RODA_CAP_SAME_HOST);
const roda_transport kFar = transport("far", RODA_CAP_P2P);

Planner planner(const std::string& rules = "", bool always = false) {
  std::string error;
  const auto user = select::Table::parse(rules, &error);
  EXPECT_TRUE(user.has_value()) << error;
  return {select::Table::defaults().overridden_by(*user), {&kNear, &kFar}, Planner::Policy{{always, always}}};
}

// Hosts with so many ranks each. Shapes live as long as the test program.
PlanQuery allreduce(std::size_t bytes, const std::vector<int>& sizes) {
  static std::vector<std::unique_ptr<Shape>> shapes;
  std::vector<int> host_of;
  for (std::size_t host = 0; host < sizes.size(); ++host) {
    host_of.insert(host_of.end(), static_cast<std::size_t>(sizes[host]), static_cast<int>(host));
  }
  shapes.push_back(std::make_unique<Shape>(Levels{{"host", host_of}}, 0));
  PlanQuery q;
  q.bytes = bytes;
  q.lie_on(*shapes.back());
  return q;
}

std::string described(Planner&& planner, const PlanQuery& query) {
  const Plan* plan = nullptr;
  const Status s = planner.plan(query, &plan);
  return s.ok() ? plan->describe() : s.message();
}

TEST(Planner, HasMessagesBetweenHostsInTheFormatAskedFor) {
  Planner p = planner();
  const std::uint32_t others = p.add_rules("allreduce = far/ring");
  const auto planned = [&p](std::vector<int> hosts, std::uint32_t rules) {
    PlanQuery query = allreduce(1 << 20, hosts);
    query.rules = p.rules_with(rules, RODA_WIRE_INT8);
    const Plan* plan = nullptr;
    return p.plan(query, &plan).ok() ? plan->text : "none";
  };
  EXPECT_EQ(planned({1, 1}, 0), "allreduce by far/ordered/int8");
  EXPECT_EQ(planned({1, 1}, others), "allreduce by far/ordered/int8");
  EXPECT_NE(planned({2, 2}, 0).find("allreduce across hosts by far/ordered/int8"), std::string::npos);
  EXPECT_EQ(planned({4}, 0), "allreduce by near/direct");
  EXPECT_EQ(planned({4}, others), "allreduce by far/ring");
  const std::uint32_t bans = p.add_rules("allreduce:1M-inf = !far/ordered; allreduce = !*/ring/int8");
  EXPECT_EQ(planned({1, 1}, bans), "allreduce by far/ring");
  EXPECT_EQ(planned({1, 1}, p.add_rules("allreduce = !far/ring, far/ordered")), "allreduce by far/ordered/int8");
  EXPECT_EQ(p.rules_with(others, RODA_WIRE_NONE), others);
  EXPECT_EQ(p.rules_with(others, RODA_WIRE_INT8), p.rules_with(others, RODA_WIRE_INT8));
}

// Rules that are added hold for queries that name them; what was handed out before stays.
TEST(Planner, AddsRulesForThoseWhoNameThem) {
  Planner p = planner();
  PlanQuery query = allreduce(1 << 20, {4});
  const Plan* before = nullptr;
  ASSERT_TRUE(p.plan(query, &before).ok());
  EXPECT_EQ(before->text, "allreduce by near/direct");
  const std::uint32_t rules = p.add_rules("allreduce@host:524288-inf[4] = near/ring");
  EXPECT_EQ(rules, 1u);
  EXPECT_EQ(p.add_rules("allreduce = far/ring"), 2u);
  EXPECT_EQ(p.add_rules("allreduce@host:524288-inf[4] = near/ring"), rules);
  EXPECT_EQ(p.add_rules(""), 0u);
  query.rules = rules;
  const Plan* after = nullptr;
  ASSERT_TRUE(p.plan(query, &after).ok());
  EXPECT_EQ(after->text, "allreduce by near/ring");
  query.bytes = 524'287;
  ASSERT_TRUE(p.plan(query, &after).ok());
  EXPECT_EQ(after->text, "allreduce by near/direct");
  query.rules = 0;
  query.bytes = 1 << 20;
  ASSERT_TRUE(p.plan(query, &after).ok());
  EXPECT_EQ(after, before);
}

// Process sets come and go, and with them their shapes: a plan is found again by what the shape was.
TEST(Planner, OutlivesTheShapesOfItsPlans) {
  Planner p = planner();
  const Plan* first = nullptr;
  const Plan* again = nullptr;
  for (const Plan** plan : {&first, &again}) {
    const auto shape = std::make_unique<Shape>(Levels{{"host", {0, 0, 1, 1}}}, 0);
    PlanQuery q = allreduce(64 << 20, {4});
    q.lie_on(*shape);
    ASSERT_TRUE(p.plan(q, plan).ok());
  }
  EXPECT_EQ(first, again);
}

// Every change is told, at its byte, on a composition's shares as well.
TEST(Planner, TellsWhatRunsAtWhichSize) {
  const std::string rules =
      "allreduce:0-1000 = far/recursive_doubling; allreduce:1000-8K = near/oneshot; allreduce = far/ring";
  Planner one = planner(rules);
  EXPECT_EQ(by_size(&one, allreduce(0, {4})),
            "allreduce by far/recursive_doubling below 1000 B; allreduce by near/oneshot below 8 KiB; allreduce by "
            "far/ring above");
  Planner two =
      planner("allreduce[4] = levels/hierarchical; allreduce:0-4K = far/recursive_doubling; allreduce = far/ring");
  EXPECT_EQ(by_size(&two, allreduce(0, {2, 2})),
            "reducescatter on each host by near/direct, then allreduce across hosts by far/recursive_doubling, then "
            "allgather on each host by near/direct below 8 KiB; reducescatter on each host by near/direct, then "
            "allreduce across hosts by far/ring, then allgather on each host by near/direct above");
  Planner same = planner("allreduce = far/ring");
  EXPECT_EQ(by_size(&same, allreduce(0, {4})), "allreduce by far/ring");
}

// After so many other queries that they are not all remembered.
TEST(Planner, KeepsWhatItHandedOut) {
  Planner p = planner();
  PlanQuery q;
  q.bytes = 4;
  q.size = 2;
  const Plan *first = nullptr, *again = nullptr;
  ASSERT_TRUE(p.plan(q, &first).ok());
  for (q.size = 3; q.size < 5000; ++q.size) ASSERT_TRUE(p.plan(q, &again).ok());
  q.size = 2;
  ASSERT_TRUE(p.plan(q, &again).ok());
  EXPECT_EQ(first, again);
  EXPECT_EQ(first->text, "allreduce by near/oneshot");
}

// Which plan it is does not depend on how it is spoken of, nor on what asked for it.
TEST(Planner, TellsPlansApartByNumber) {
  Planner p = planner();
  PlanQuery q = allreduce(64 << 20, {2, 2});
  const Plan *floats = nullptr, *integers = nullptr, *small = nullptr;
  ASSERT_TRUE(p.plan(q, &floats).ok());
  q.dtype = RODA_INT32;
  ASSERT_TRUE(p.plan(q, &integers).ok());
  q.bytes = 4;
  ASSERT_TRUE(p.plan(q, &small).ok());
  EXPECT_EQ(floats, integers);
  EXPECT_NE(floats->id, 0u);
  EXPECT_NE(small->id, 0u);
  EXPECT_NE(floats->id, small->id);
}

TEST(Planner, RanksItsOptionsOnceForSizesThatAreAlike) {
  static int asked;
  asked = 0;
  roda_transport library = transport("library", RODA_CAP_P2P | RODA_CAP_NATIVE);
  library.collective_supported = [](roda_context*, std::int32_t, std::int32_t, std::int32_t, std::int32_t) {
    return ++asked > 0 ? 1 : 0;
  };
  Planner p(select::Table::defaults(), {&library}, {});
  const auto rankings = [&](std::size_t bytes) {
    PlanQuery q;
    q.bytes = bytes;
    q.size = 4;
    const Plan* plan = nullptr;
    const int before = asked;
    EXPECT_TRUE(p.plan(q, &plan).ok());
    return asked - before;
  };
  EXPECT_GT(rankings(1 << 20), 0);
  for (std::size_t bytes = (1 << 20) - 3; bytes < (1 << 20) + 1000; ++bytes) EXPECT_EQ(rankings(bytes), 0) << bytes;
  EXPECT_GT(rankings((512 << 10) - 1), 0);
}

// On both sides of every edge, and where a stage's share of the bytes passes one.
TEST(Planner, SizesThatAreAlikeHaveOnePlan) {
  const std::string rules =
      "allreduce:3-777[4-] = levels/hierarchical; allreduce:100-1000[2] = far/recursive_doubling; "
      "reducescatter:50-5000 = near/ring; allgather:60-600 = near/ring; allgather:7K-9K = far/bruck";
  std::string error;
  const select::Table table = select::Table::defaults().overridden_by(*select::Table::parse(rules, &error));
  const auto made = [&table] { return Planner(table, {&kNear, &kFar}, {}); };
  std::vector<std::size_t> sizes{0, 1, SIZE_MAX / 64};
  for (const std::size_t edge : table.edges()) {
    for (const std::size_t share : {1, 2, 3, 4, 6}) {
      for (const std::size_t bytes : {edge * share - 1, edge * share, edge * share + 1}) sizes.push_back(bytes);
    }
  }
  std::shuffle(sizes.begin(), sizes.end(), std::mt19937(1));
  const std::vector<std::vector<int>> jobs{{4}, {2, 2}, {1, 3}, {3, 3, 3}, {1, 1, 1, 1, 1, 1}};
  for (const std::vector<int>& hosts : jobs) {
    for (const int collective : {RODA_ALLREDUCE, RODA_ALLGATHER, RODA_BROADCAST, RODA_REDUCESCATTER}) {
      Planner warm = made();
      PlanQuery q = allreduce(0, hosts);
      q.collective = collective;
      for (const std::size_t bytes : sizes) {
        q.bytes = bytes;
        const Plan* plan = nullptr;
        ASSERT_TRUE(warm.plan(q, &plan).ok());
        ASSERT_EQ(plan->text, described(made(), q)) << bytes << " bytes of collective " << collective;
      }
    }
  }
}

TEST(Planner, OneHostNeedsNoLevels) {
  EXPECT_EQ(described(planner(), allreduce(1 << 20, {4})), "allreduce by near/direct");
}

TEST(Planner, HostsWithSeveralRanksAreLevels) {
  EXPECT_EQ(
      described(planner(), allreduce(64 << 20, {2, 2})),
      "reducescatter on each host by near/direct, then allreduce across hosts by far/ring, then allgather on each "
      "host by near/direct");
  EXPECT_EQ(described(planner(), allreduce(4, {2, 2})),
            "allreduce on each host by near/oneshot, then allreduce across hosts by far/recursive_doubling");
}

// With a library of messages and windows beside our sockets, with a network that reads memory by itself, and with
// neither.
TEST(Planner, BetweenHostsSocketsComeFirstUnlessADeviceReadsMemory) {
  const roda_transport sockets = transport("tcp", RODA_CAP_P2P);
  const roda_transport library = transport("library", kMemory | RODA_CAP_PUT | RODA_CAP_ACTIVE_WINDOWS);
  const roda_transport device = transport("device", kMemory | RODA_CAP_PUT);
  const PlanQuery between_hosts = allreduce(64 << 20, {1, 1, 1, 1}), in_host = allreduce(64 << 20, {4});
  const auto chosen = [](std::vector<const roda_transport*> built, const PlanQuery& query) {
    return described({select::Table::defaults(), in_order_of_preference(std::move(built), {}), {}}, query);
  };
  EXPECT_EQ(chosen({&library, &sockets, &kNear}, between_hosts), "allreduce by tcp/ring");
  EXPECT_EQ(chosen({&library, &sockets, &kNear}, in_host), "allreduce by near/direct");
  EXPECT_EQ(chosen({&library, &sockets, &kNear, &device}, between_hosts), "allreduce by device/direct");
  EXPECT_EQ(chosen({&library, &sockets, &kNear, &device}, in_host), "allreduce by near/direct");
  EXPECT_EQ(chosen({&library, &kNear}, between_hosts), "allreduce by library/ring");
}

TEST(Planner, HostsOfDifferentSizesArePlannedAsOne) {
  EXPECT_EQ(
      described(planner(), allreduce(64 << 20, {1, 3})),
      "reducescatter on each host by near/direct, then allreduce across hosts by far/ring, then allgather on each "
      "host by near/direct");
  PlanQuery gather = allreduce(64 << 20, {1, 3});
  gather.collective = RODA_ALLGATHER;
  EXPECT_EQ(described(planner(), gather),
            "alltoall on each host by near/direct, then allgather across hosts by far/ring, then allgather on each "
            "host by near/direct");
}

TEST(Planner, OneChoiceServesGroupsOfEverySize) {
  EXPECT_NE(
      described(planner("reducescatter[3] = near/direct; reducescatter[2] = near/ring"), allreduce(64 << 20, {2, 3}))
          .find("reducescatter on each host by near/direct"),
      std::string::npos);
}

TEST(Planner, LevelsAreWhatTheUserSays) {
  Topology topology;
  topology.hosts = {{"a", "", 0, {0, 1, 2, 3}}, {"b", "", 0, {4, 5, 6, 7}}};
  place_ranks(&topology);
  ASSERT_TRUE(topology::find_levels("socket=2,host", &topology).ok());
  const Shape shape(topology.levels, 0);
  PlanQuery q = allreduce(64 << 20, {4, 4});
  q.lie_on(shape);
  EXPECT_EQ(described(planner(), q),
            "reducescatter on each socket by near/direct, then reducescatter across sockets of each host by "
            "near/direct, then allreduce across hosts by far/ring, then allgather across sockets of each host by "
            "near/direct, then allgather on each socket by near/direct");
}

TEST(Planner, ATorusIsARectangle) {
  const std::string along =
      "reducescatter along x by far/ring, then allreduce along y by far/ring, then allgather "
      "along x by far/ring";
  EXPECT_EQ(described(planner("allreduce = levels/torus"), allreduce(64 << 20, {1, 1, 1, 1, 1, 1})), along);
  EXPECT_EQ(described(planner("allreduce = levels/torus"), allreduce(64 << 20, {1, 1, 1})), "allreduce by far/ring");
  EXPECT_NE(described(planner("allreduce = levels/torus"), allreduce(64 << 20, {2, 2})).find("along x by near"),
            std::string::npos);
}

TEST(Planner, HostsWithOneRankEachAreFlat) {
  EXPECT_EQ(described(planner(), allreduce(64 << 20, {1, 1, 1, 1})), "allreduce by far/ring");
}

TEST(Planner, NothingFasterInsideAHostMeansFlatUnlessAskedFor) {
  Planner flat{select::Table::defaults(), {&kFar}, {}};
  EXPECT_EQ(described(std::move(flat), allreduce(64 << 20, {2, 2})), "allreduce by far/ring");
  Planner forced{select::Table::defaults(), {&kFar}, Planner::Policy{{true, true}}};
  EXPECT_EQ(described(std::move(forced), allreduce(64 << 20, {2, 2})),
            "reducescatter on each host by far/ring, then allreduce across hosts by far/ring, then allgather on each "
            "host by far/ring");
}

TEST(Planner, UsersForbidAndForceCompositions) {
  EXPECT_EQ(described(planner("allreduce = !levels/hierarchical"), allreduce(64 << 20, {2, 2})),
            "allreduce by far/ring");
  EXPECT_EQ(described(planner("allreduce = levels/two_step"), allreduce(64 << 20, {2, 2})),
            "allreduce on each host by near/direct, then allreduce across hosts by far/ring");
  std::string error;
  EXPECT_FALSE(select::Table::parse("allreduce = levels/ring", &error).has_value());
  EXPECT_NE(error.find("hierarchical, two_step"), std::string::npos) << error;
}

TEST(Planner, BroadcastsGoAcrossHostsFirst) {
  PlanQuery q = allreduce(1 << 20, {2, 2});
  q.collective = RODA_BROADCAST;
  EXPECT_EQ(described(planner(), q),
            "broadcast across hosts by far/double_binary_tree, then broadcast on each host by near/direct");
  q = allreduce(1 << 20, {2, 3});
  q.collective = RODA_BROADCAST;
  EXPECT_EQ(described(planner(), q),
            "broadcast across hosts by far/double_binary_tree, then broadcast on each host by near/direct");
}

TEST(Planner, ExplainsWhatIsComposed) {
  const Planner p = planner();
  const auto j = nlohmann::json::parse(explain(p, allreduce(64 << 20, {2, 2}), Topology(), Form::kJson));
  ASSERT_EQ(j["stages"].size(), 3u);
  EXPECT_EQ(j["stages"][1]["where"], "across hosts");
  EXPECT_EQ(j["stages"][1]["transport"], "far");
  const auto choice = nlohmann::json::parse(explain(p, allreduce(64 << 20, {2, 2}), Topology(), Form::kChoice));
  EXPECT_EQ(choice["stages"], j["stages"]);
  EXPECT_EQ(choice["runs"]["algorithm"], "hierarchical");
  EXPECT_FALSE(choice.contains("candidates"));
  const std::string words = explain(p, allreduce(64 << 20, {4}), Topology(), Form::kWords);
  EXPECT_NE(words.find("levels/hierarchical  not usable: all ranks are on one host"), std::string::npos) << words;
}

// Formats are for what crosses between hosts, of float32, to be summed; all else runs as if the rule were not there.
TEST(Planner, EncodesBetweenHostsAlone) {
  const std::string rule = "allreduce@between = far/ordered/int8";
  const std::string plain =
      "reducescatter on each host by near/direct, then allreduce across hosts by far/ring, then "
      "allgather on each host by near/direct";
  std::string encoded = plain;
  encoded.replace(encoded.find("far/ring"), 8, "far/ordered/int8");
  PlanQuery q = allreduce(64 << 20, {2, 2});
  EXPECT_EQ(described(planner(), q), plain);
  EXPECT_EQ(described(planner(rule), q), encoded);
  EXPECT_EQ(described(planner("allreduce@between:64K-inf = far/ordered/int8"), q), encoded);
  EXPECT_EQ(described(planner(rule), allreduce(64 << 20, {1, 1})), "allreduce by far/ordered/int8");
  EXPECT_EQ(described(planner(rule), allreduce(64 << 20, {3})), "allreduce by near/direct");
  q.op = RODA_MAX;
  EXPECT_EQ(described(planner(rule), q), plain);
  q.op = RODA_SUM;
  q.dtype = RODA_FLOAT64;
  EXPECT_EQ(described(planner(rule), q), plain);
}

TEST(Planner, SaysWhyThereIsNoFormat) {
  const auto words = [](const std::string& rules, const PlanQuery& q) {
    return explain(planner(rules), q, Topology(), Form::kWords);
  };
  const std::string rule = "allreduce = far/ring/int8";
  PlanQuery q = allreduce(1 << 20, {2, 2});
  EXPECT_NE(words(rule, q).find("far/ring/int8  not usable: formats are for messages between hosts, and some ranks "
                                "share a host here"),
            std::string::npos);
  q = allreduce(1 << 20, {1, 1, 1});
  q.dtype = RODA_INT32;
  EXPECT_NE(words(rule, q).find("not usable: formats are for float32, not for int32"), std::string::npos);
  q.dtype = RODA_FLOAT32;
  q.op = RODA_MIN;
  EXPECT_NE(words(rule, q).find("not usable: formats are for sums, not for min"), std::string::npos);
  q.op = RODA_SUM;
  EXPECT_NE(words("allreduce = far/recursive_doubling/int8", q)
                .find("not usable: recursive_doubling/int8 does not run on 3 ranks"),
            std::string::npos);
}

TEST(Planner, LeavesFormatsToTheLinkWhereItIsAsked) {
  const std::string rule = "allreduce@between = far/ordered/auto";
  const auto planned = [&](double gbits, std::size_t bytes, double most_error = 1, std::vector<int> hosts = {2, 2}) {
    Planner::Policy options;
    options.terms.most_error = most_error;
    Planner p(select::Table::defaults().overridden_by(*select::Table::parse(rule, nullptr)), {&kNear, &kFar}, options);
    p.use_link({gbits * 1e9 / 8, 1, "measured"});
    const PlanQuery q = allreduce(bytes, hosts);
    const std::string words = explain(p, q, Topology(), Form::kWords);
    return described(std::move(p), q) + "; " + words;
  };
  EXPECT_EQ(planned(10, 64 << 20)
                .find("reducescatter on each host by near/direct, then allreduce across hosts by "
                      "far/ordered/bf16, then"),
            0U);
  for (const auto& other :
       {planned(40, 64 << 20), planned(0, 64 << 20), planned(10, 1 << 10), planned(10, 64 << 20, 1e-3)}) {
    EXPECT_EQ(other.find("bf16, then"), std::string::npos) << other;
  }
  EXPECT_NE(planned(40, 64 << 20, 1, {1, 1})
                .find("far/ordered/auto  not usable: the link makes 40 Gbit/s (measured), and bf16 wins below 23.9"),
            std::string::npos);
  EXPECT_NE(planned(40, 64 << 20)
                .find("wire formats take 10 % less time between hosts on slower links (1 core each): bf16 below 23.9 "
                      "Gbit/s, int8 below 38.6, int4 below 45.3; the link makes 40 Gbit/s (measured)"),
            std::string::npos)
      << planned(40, 64 << 20);
}

TEST(Planner, RefusesWhatIsAboveTheUsersBound) {
  Planner::Policy options;
  options.terms.most_error = 0.01;
  Planner p(select::Table::defaults(), {&kNear, &kFar}, options);
  const auto planned = [&](std::vector<int> hosts, std::int32_t format) {
    PlanQuery q = allreduce(64 << 20, hosts);
    q.rules = p.rules_with(0, format);
    const Plan* plan = nullptr;
    const Status status = p.plan(q, &plan);
    return status.ok() ? plan->text : status.message();
  };
  EXPECT_EQ(planned({1, 1, 1}, RODA_WIRE_INT8), "allreduce by far/ordered/int8");
  EXPECT_EQ(planned({4}, RODA_WIRE_INT4), "allreduce by near/direct");
  EXPECT_EQ(planned({1, 1, 1}, RODA_WIRE_INT4),
            "allreduce by far/ordered/int4: int4 rounds a contribution 2 times, which is proved to be off by up to "
            "0.149, and HOROVOD_WIRE_BOUND allows 0.01: take bf16 (0.00783), fp16 (0.000977), int8 (0.0079), or raise "
            "the bound");
}

TEST(Planner, ExplainsWhatFormatsComeTo) {
  const Planner p = planner("allreduce@between = far/ordered/int8");
  PlanQuery q = allreduce(64 << 20, {2, 2});
  const std::string words = explain(p, q, Topology(), Form::kWords);
  EXPECT_NE(words.find("int8: a rank sends 8519680 bytes"), std::string::npos) << words;
  EXPECT_NE(
      words.find("for 33554432; what it contributes is rounded 2 times at most, so sums are off by at most 0.0079 "
                 "of what the ranks' largest magnitudes in the block add up to"),
      std::string::npos)
      << words;
  const auto formats = nlohmann::json::parse(explain(p, q, Topology(), Form::kJson))["formats"];
  EXPECT_EQ(formats["names"], "int8");
  EXPECT_EQ(formats["bytes_meant"], 32 << 20);
  EXPECT_EQ(formats["bytes_sent"], (8 << 20) + (32 << 20) / 256);
  EXPECT_EQ(formats["roundings"], 2);
  q.bytes = 4;
  const auto one = nlohmann::json::parse(explain(p, q, Topology(), Form::kJson))["formats"];
  EXPECT_EQ(one["bytes_meant"], 4);
  EXPECT_EQ(one["bytes_sent"], 5);  // and the scale
  PlanQuery gathered = allreduce(64 << 20, {2, 2});
  gathered.collective = RODA_ALLGATHER;
  const Planner gathering = planner("allgather@between = far/ring/int8");
  const auto parts = nlohmann::json::parse(explain(gathering, gathered, Topology(), Form::kJson))["formats"];
  EXPECT_EQ(parts["bytes_meant"], 16 << 20);
  EXPECT_EQ(parts["roundings"], 1);
  const auto plain = nlohmann::json::parse(explain(planner(), q, Topology(), Form::kJson));
  EXPECT_FALSE(plain.contains("formats"));
}

}  // namespace
}  // namespace roda::engine
