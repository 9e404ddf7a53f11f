// RODA_REFINE=on: what runs changes while the job runs, on every rank at the same launch, and the sums stay right.
//
// Over the transport "lazy" with LAZY_HOLD_US every message takes its time, while RODA_LINKS says that messages cost
// nothing and bytes a lot. So the first choice is of few bytes in many rounds, and the slowest by construction.
// Values are small whole numbers: sums are exact in any order.
#include <signal.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/multi/engine/rank.h"

namespace roda::test {
namespace {

using Shape = std::vector<std::int64_t>;
using Json = nlohmann::json;

constexpr std::int64_t kElements = 8192;
const Shape kOne{1};

bool has_slow_messages() { return std::getenv("LAZY_HOLD_US") != nullptr; }

std::vector<float> values(int owner, std::int64_t count) {
  std::vector<float> all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<float>((i + static_cast<std::size_t>(owner) * 7) % 61);
  return all;
}

std::vector<float> sum_over(const std::vector<int>& ranks, std::int64_t count) {
  std::vector<float> sum(static_cast<std::size_t>(count));
  for (const int r : ranks) {
    const std::vector<float> part = values(r, count);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  return sum;
}

std::vector<int> everybody() {
  std::vector<int> ranks(static_cast<std::size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Over those of the set's ranks that are not at home.
Outcome allreduce(const std::string& name, std::int64_t count, const std::vector<int>& ranks, std::int32_t set = 0) {
  const std::vector<float> mine = values(rank(), count);
  std::vector<float> got(mine.size());
  const Shape shape{count};
  roda_op op = make_op(RODA_ALLREDUCE, name, shape, mine.data(), got.data());
  op.process_set = set;
  const Outcome o = run(op);
  if (o.code == RODA_OK) {
    EXPECT_EQ(got, sum_over(ranks, count)) << name;
  }
  return o;
}

Json choices() {
  const std::unique_ptr<char, void (*)(char*)> text(roda_describe_choices(1), roda_free_text);
  return Json::parse(text.get());
}

// Of allreduces of kElements.
Json row(std::int32_t set = 0) {
  const Json all = choices();
  for (const Json& entry : all["classes"]) {
    if (entry["set"] == set && entry["collective"] == "ALLREDUCE" && entry["from_bytes"] == kElements * 4) return entry;
  }
  return {{"changes", Json::array()}, {"launches", Json::object()}};
}

bool has_kept(const Json& entry) {
  for (const Json& change : entry["changes"]) {
    if (change["change"] == "keep") return true;
  }
  return false;
}

bool is_trying(const Json& entry) { return !entry["changes"].empty() && entry["changes"].back()["change"] == "try"; }

// The same answer on every rank: the one of `root`. Not OK: the job has ended.
Outcome agree(bool* answer, int root = 0) {
  float value = *answer ? 1 : 0;
  roda_op op = make_op(RODA_BROADCAST, "answer", kOne, &value, &value);
  op.root = root;
  const Outcome o = run(op);
  *answer = value != 0;
  return o;
}

// Launches of kElements until every rank agrees that `done` holds on rank 0; false after `most`.
template <typename Done>
bool launch_until(int most, int at_once, Done done) {
  for (int i = 0; i < most; ++i) {
    if (allreduce("cached", kElements, everybody()).code != RODA_OK) return false;
    bool is_done = i % at_once == at_once - 1 && done(row());
    if (i % at_once == at_once - 1 && (agree(&is_done).code != RODA_OK || is_done)) return is_done;
  }
  return false;
}

// The text of rank 0 on every rank.
std::string of_rank_0(const std::string& text) {
  std::int64_t length = static_cast<std::int64_t>(text.size());
  roda_op op = make_op(RODA_BROADCAST, "length", kOne, &length, &length, RODA_INT64);
  EXPECT_EQ(run(op).code, RODA_OK);
  std::string theirs = text;
  theirs.resize(static_cast<std::size_t>(length));
  const Shape shape{length};
  op = make_op(RODA_BROADCAST, "text", shape, theirs.data(), theirs.data(), RODA_UINT8);
  EXPECT_EQ(run(op).code, RODA_OK);
  return theirs;
}

TEST(Refine, ChangesWhatRunsOnEveryRankAlike) {
  if (!has_slow_messages() || size() < 4) GTEST_SKIP() << "no plan is slow by construction";
  ASSERT_TRUE(launch_until(2000, 20, has_kept)) << choices().dump(1);
  const Json before = row();
  EXPECT_EQ(of_rank_0(before.dump()), before.dump());
  const Json& first = before["changes"].front();
  std::string kept;
  for (const Json& change : before["changes"]) {
    if (change["change"] == "keep") kept = change["option"];
  }
  EXPECT_NE(kept, first["present"]);
  roda_error error{};
  error.struct_size = sizeof error;
  const std::unique_ptr<char, void (*)(char*)> words(roda_explain(RODA_ALLREDUCE, kElements * 4, 0, 0, &error),
                                                     roda_free_text);
  ASSERT_NE(words, nullptr) << error.message;
  EXPECT_NE(std::string(words.get()).find("> " + kept + "  runs: "), std::string::npos) << words.get();
  EXPECT_NE(std::string(words.get()).find(" keeps " + kept), std::string::npos) << words.get();
  for (int i = 0; i < 10; ++i) ASSERT_EQ(allreduce("cached", kElements, everybody()).code, RODA_OK);
  const Json after = row();
  for (const auto& [plan, launches] : after["launches"].items()) {
    const std::int64_t more = launches.get<std::int64_t>() - before["launches"].value(plan, std::int64_t{0});
    EXPECT_EQ(more, plan == "allreduce by " + kept ? 10 : 0) << plan;
  }
}

// Random sizes of every collective, some at once, some fused: whatever is tried meanwhile, the results are right, and
// every rank has run the same.
TEST(Refine, ResultsAreRightWhateverIsTried) {
  std::mt19937 random(7);
  const int rounds = has_slow_messages() ? 60 : 150;
  for (int round = 0; round < rounds; ++round) {
    const std::int64_t count = 1 + static_cast<std::int64_t>(random() % 3000);
    std::vector<roda_handle> handles(1 + random() % 3);
    std::vector<std::vector<float>> inputs, outputs;
    const Shape shape{count};
    for (std::size_t i = 0; i < handles.size(); ++i) {
      inputs.push_back(values(rank(), count));
      outputs.emplace_back(static_cast<std::size_t>(count));
    }
    for (std::size_t i = 0; i < handles.size(); ++i) {
      const std::string name = "t" + std::to_string(i) + (round % 3 == 0 ? "" : "." + std::to_string(count % 5));
      ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, name, shape, inputs[i].data(), outputs[i].data())}, &handles[i]).code,
                RODA_OK);
    }
    for (const roda_handle handle : handles) ASSERT_EQ(wait(handle).code, RODA_OK);
    for (const auto& output : outputs) ASSERT_EQ(output, sum_over(everybody(), count)) << round;
    const std::vector<float> mine = values(rank(), 8);
    const Shape eight{8};
    const auto gathered = run_owned<float>(make_op(RODA_ALLGATHER, "gathered", eight, mine.data(), nullptr));
    ASSERT_EQ(gathered.outcome.code, RODA_OK) << gathered.outcome.message;
    for (int r = 0; r < size(); ++r) {
      const auto from = gathered.values.begin() + r * 8;
      ASSERT_EQ(std::vector<float>(from, from + 8), values(r, 8)) << round;
    }
  }
  ASSERT_EQ(run(make_op(RODA_BARRIER, "", {}, nullptr, nullptr)).code, RODA_OK);
  Json all = choices();
  EXPECT_EQ(of_rank_0(all.dump()), all.dump());
}

// The first member of each set speaks for it, and rank 0 is in neither.
TEST(Refine, ProcessSetsHaveChoicesOfTheirOwn) {
  if (size() < 3) GTEST_SKIP() << "two sets without rank 0 take three ranks";
  for (int round = 0; round < 2; ++round) {
    std::vector<std::int32_t> members{1, 2};
    if (round == 0 && size() > 3) members.push_back(3);
    const std::int32_t set = roda_add_process_set(members.data(), static_cast<std::int32_t>(members.size()));
    ASSERT_GT(set, 0);
    const bool is_member = roda_process_set_included(set) == 1;
    bool is_done = false;
    const int most = has_slow_messages() ? 400 : 100;
    for (int i = 0; i < most && !is_done; ++i) {
      if (is_member) {
        ASSERT_EQ(allreduce("of a set", kElements, {members.begin(), members.end()}, set).code, RODA_OK);
      }
      is_done = is_trying(row(set));
      if (i % 8 == 7) {
        ASSERT_EQ(agree(&is_done, 1).code, RODA_OK);
      }
      if (i % 8 != 7) is_done = false;
    }
    // It goes while something may be tried in it; the next one gets its number.
    ASSERT_EQ(roda_remove_process_set(set), 1);
    EXPECT_TRUE(row(set)["changes"].empty());
  }
}

TEST(Refine, JoinedRanksGiveZerosToWhatIsTried) {
  if (size() == 1) GTEST_SKIP();
  std::vector<int> others = everybody();
  others.pop_back();
  if (rank() != size() - 1) {
    for (int i = 0; i < 80; ++i) {
      ASSERT_EQ(allreduce(i % 2 == 0 ? "cached" : "joined", kElements, others).code, RODA_OK);
    }
  }
  ASSERT_EQ(run(make_op(RODA_JOIN, "", {}, nullptr, nullptr)).code, RODA_OK);
  ASSERT_EQ(allreduce("cached", kElements, everybody()).code, RODA_OK);
}

// The last test but the one of a death: the job ends with a tensor on its way in the middle of a try.
TEST(Refine, TheJobEndsDuringATry) {
  if (!has_slow_messages() || size() < 4) GTEST_SKIP() << "nothing need be tried";
  constexpr std::int64_t kMore = 2 * kElements;  // another class: its first try comes after 32 launches
  bool is_found = false;
  for (int i = 0; i < 400 && !is_found; ++i) {
    ASSERT_EQ(allreduce("ends", kMore, everybody()).code, RODA_OK);
    const Json all = choices();
    for (const Json& entry : all["classes"]) {
      if (entry["from_bytes"] <= kMore * 4 && entry["to_bytes"] >= kMore * 4 && entry["collective"] == "ALLREDUCE") {
        is_found = is_found || is_trying(entry);
      }
    }
    ASSERT_EQ(agree(&is_found).code, RODA_OK);
  }
  EXPECT_TRUE(is_found) << choices().dump(1);
}

TEST(RefineFaults, ARankDiesDuringATry) {
  const int victim = size() - 1;
  const bool is_found = launch_until(400, 1, is_trying);
  EXPECT_TRUE(is_found) << choices().dump(1);
  if (rank() == victim) raise(SIGKILL);
  Outcome o;
  for (int i = 0; i < 100 && o.code == RODA_OK; ++i) o = allreduce("cached", kElements, everybody());
  EXPECT_LT(o.code, 0);
  EXPECT_NE(o.message.find("ank " + std::to_string(victim)), std::string::npos) << o.message;
}

}  // namespace
}  // namespace roda::test
