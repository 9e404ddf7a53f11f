// Wrong sums that users of other libraries met, written as schedules: the verifier names the rank and the step of each
// without running it, and has nothing against the same schedule with the missing steps.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "algorithms/schedule/build.h"
#include "algorithms/schedule/verifier.h"
#include "algorithms/text/schedule_file.h"

namespace roda::text {
namespace {

using schedule::Schedule;
using schedule::Step;
namespace step = schedule::step;

std::vector<Step>& steps_of(Schedule& schedule) { return schedule.lanes[0].steps; }

void insert(Schedule& schedule, int before, const std::vector<Step>& steps) {
  steps_of(schedule).insert(steps_of(schedule).begin() + before, steps.begin(), steps.end());
}

struct WrongSum {
  const char* name;  // of the file
  const char* verdict;
  std::function<void(std::vector<Schedule>&)> mend;
};

void PrintTo(const WrongSum& wrong, std::ostream* out) { *out << wrong.name; }

class PeersWrongSums : public testing::TestWithParam<WrongSum> {};

TEST_P(PeersWrongSums, AreNamedByRankAndStep) {
  std::ostringstream text;
  text << std::ifstream(std::string(PEERS) + "/" + GetParam().name + ".json").rdbuf();
  std::vector<Schedule> ranks;
  EXPECT_EQ(read_schedules(text.str(), &ranks), std::string(GetParam().name) + ": " + GetParam().verdict);
  GetParam().mend(ranks);
  const auto violation = schedule::verify(ranks);
  EXPECT_FALSE(violation) << violation->to_text();
}

const WrongSum kWrongSums[] = {
    // Gloo's halving-doubling (jax#40830, 2026), with reads in place of sends: ranks write what they still send from.
    {"gloo_reduce_scatter",
     "rank 0, lane 0, step 2: get scratch[0..2) = output[0..2) of 1: reads output[0] of rank 1 without being ordered "
     "after step 3 of rank 1, lane 0 (reduce output[0..2) += scratch[0..2))",
     [](std::vector<Schedule>& ranks) {
       for (Schedule& rank : ranks) {
         insert(rank, 3, {step::signal(schedule::kAllPeers), step::wait(schedule::kAllPeers)});
       }
     }},
    // torchcomms over Gloo (torchcomms#477, 2026): the root sums up into memory that its own part was never put into.
    {"torchcomms_reduce_scatter_v", "rank 0: output[0] ends with 2 of 3 contributions",
     [](std::vector<Schedule>& ranks) {
       steps_of(ranks[0])[0] = step::recv_reduce(1, schedule::output(0), schedule::input(0));
     }},
    // A mailbox that the next sender fills before it was emptied; vLLM's, of buffers in turn (vllm#53000), is its kind.
    {"mailbox",
     "rank 2, lane 0, step 1: put output[0] of 0 = input[0]: writes output[0] of rank 0 without being ordered after "
     "step 1 of rank 1, lane 0 (put output[0] of 0 = input[0])",
     [](std::vector<Schedule>& ranks) {
       insert(ranks[0], 4, {step::signal(2)});
       insert(ranks[2], 1, {step::wait(0)});
     }}};

INSTANTIATE_TEST_SUITE_P(Each, PeersWrongSums, testing::ValuesIn(kWrongSums),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace roda::text
