// Everything that ranks can disagree on: the same error on all of them, with who said what, and a job that goes on.
#include <algorithm>
#include <cstdlib>
#include <functional>

#include "tests/multi/engine/rank.h"

namespace roda::test {
namespace {

using Shape = std::vector<std::int64_t>;

// What the last rank does otherwise, and what it must be told.
struct Case {
  const char* what;
  std::function<roda_op(bool odd)> op;
  std::string begin;        // of the message
  std::string odd, others;  // values that it must hold
};

float data[64];
const Shape kFour{4}, kFive{5}, kTwoByThree{2, 3}, kTwoByFour{2, 4};

std::vector<Case> cases() {
  static const std::string name = "disputed";
  const auto make = [](int collective, const Shape& shape, int dtype = RODA_FLOAT32) {
    const bool owned = roda_collective_of(collective)->output != RODA_WHOLE;
    return make_op(collective, name, shape, data, owned ? nullptr : data, dtype);
  };
  const auto with_op = [make](int collective, int op) {
    roda_op made = make(collective, kFour);
    made.op = op;
    return made;
  };
  std::vector<Case> all;
  const Shape even{8 * size()};
  for (const int c : {RODA_ALLREDUCE, RODA_ALLGATHER, RODA_BROADCAST, RODA_REDUCE, RODA_ALLTOALL, RODA_REDUCESCATTER}) {
    all.push_back({"dtype", [=](bool odd) { return make(c, even, odd ? RODA_FLOAT64 : RODA_FLOAT32); },
                   "Mismatched data types: One rank had type float32, but another rank had type float64.", "float64",
                   "float32"});
  }
  all.back().op = [=](bool odd) { return make(RODA_REDUCESCATTER, kFour, odd ? RODA_INT64 : RODA_INT32); };
  all.back().begin = "Mismatched data types: One rank had type int32, but another rank had type int64.";
  all.back().odd = "int64";
  all.back().others = "int32";
  all.push_back({"operation", [=](bool odd) { return make(odd ? RODA_ALLGATHER : RODA_ALLREDUCE, kFour); },
                 "Mismatched operations: One rank did an ALLREDUCE, but another rank did an ALLGATHER.", "ALLGATHER",
                 "ALLREDUCE"});
  all.push_back({"adasum", [=](bool odd) { return with_op(RODA_ALLREDUCE, odd ? RODA_ADASUM : RODA_SUM); },
                 "Mismatched operations: One rank did an ALLREDUCE, but another rank did an ADASUM.", "ADASUM",
                 "ALLREDUCE"});
  for (const auto& [c, title] : {std::pair{RODA_ALLREDUCE, "ALLREDUCE"}, std::pair{RODA_BROADCAST, "BROADCAST"},
                                 std::pair{RODA_REDUCE, "REDUCE"}, std::pair{RODA_REDUCESCATTER, "REDUCESCATTER"}}) {
    all.push_back({"shape", [=, c = c](bool odd) { return make(c, odd ? kFive : kFour); },
                   std::string("Mismatched ") + title +
                       " tensor shapes: One rank sent a tensor of shape [4], but another rank sent a tensor of shape "
                       "[5].",
                   "[5]", "[4]"});
  }
  for (const auto& [c, title] : {std::pair{RODA_ALLGATHER, "ALLGATHER"}, std::pair{RODA_ALLTOALL, "ALLTOALL"}}) {
    const Shape flat{2 * size()}, wide{size(), 3}, wider{size(), 4};
    all.push_back({"dimensions", [=, c = c](bool odd) { return make(c, odd ? wide : flat); },
                   std::string("Mismatched ") + title +
                       " tensor shapes: One rank sent a tensor of rank 1, but another rank sent a tensor of rank 2.",
                   "3]", "[" + std::to_string(2 * size()) + "]"});
    all.push_back({"row length", [=, c = c](bool odd) { return make(c, odd ? wider : wide); },
                   std::string("Mismatched ") + title +
                       " tensor shapes: One rank sent a tensor with dimension 1 equal to 3, but another rank sent a "
                       "tensor with dimension 1 equal to 4.",
                   ", 4]", ", 3]"});
  }
  for (const int c : {RODA_ALLREDUCE, RODA_REDUCESCATTER, RODA_REDUCE}) {
    for (const bool before : {true, false}) {
      const auto scaled = [=](bool odd) {
        roda_op op = make(c, kFour);
        (before ? op.prescale : op.postscale) = odd ? 0.25 : 1.0;
        return op;
      };
      all.push_back({"factor", scaled, "Mismatched prescale and/or postscale factors: ", "0.25", "scale 1"});
    }
  }
  all.push_back({"reduce op", [=](bool odd) { return with_op(RODA_ALLREDUCE, odd ? RODA_MAX : RODA_MIN); },
                 "Mismatched reduction operation: One rank requested 3, but another rank requested 4.", "max", "min"});
  all.push_back({"op of a reduce", [=](bool odd) { return with_op(RODA_REDUCE, odd ? RODA_MAX : RODA_MIN); },
                 "Mismatched reduction operation: One rank requested 3, but another rank requested 4.", "max", "min"});
  all.push_back({"sum or average", [=](bool odd) { return with_op(RODA_REDUCESCATTER, odd ? RODA_SUM : RODA_AVERAGE); },
                 "Mismatched prescale and/or postscale factors: ", "op sum", "op average"});
  for (const int c : {RODA_BROADCAST, RODA_REDUCE}) {
    const auto rooted = [=](bool odd) {
      roda_op op = make(c, kFour);
      op.root = odd ? 1 : 0;
      return op;
    };
    all.push_back({"root", rooted,
                   std::string("Mismatched ") + roda_collective_name(c) +
                       " root ranks: One rank specified root rank 0, but another rank specified root rank 1.",
                   "root 1", "root 0"});
  }
  return all;
}

void expect_sum() {
  float x = 1;
  ASSERT_EQ(run(make_op(RODA_ALLREDUCE, "disputed", {1}, &x, &x)).code, RODA_OK);
  EXPECT_EQ(x, static_cast<float>(size()));
}

TEST(Mismatch, OfEveryKindIsToldToEveryRank) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  const bool odd = rank() == size() - 1;
  const std::string last = "rank " + std::to_string(size() - 1) + ": ";
  for (const Case& c : cases()) {
    for (int round = 0; round < 2; ++round) {  // errors are not remembered
      roda_op op = c.op(odd);
      const Outcome o = run(op);
      EXPECT_EQ(o.code, RODA_ERR_PRECONDITION) << c.what;
      EXPECT_EQ(o.message.find(c.begin), 0u) << c.what << ": " << o.message;
      EXPECT_NE(o.message.find("tensor 'disputed'"), std::string::npos) << o.message;
      const std::size_t who = o.message.find(last);
      ASSERT_NE(who, std::string::npos) << o.message;
      EXPECT_NE(o.message.find(c.odd, who), std::string::npos) << o.message;
      EXPECT_NE(o.message.find(c.others), std::string::npos) << o.message;
    }
    expect_sum();
  }
}

// A tensor that the cache knows is submitted otherwise by one rank, or by all.
TEST(Mismatch, AfterTheTensorWasKnown) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  const bool odd = rank() == 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(run(make_op(RODA_ALLREDUCE, "known", kFour, data, data)).code, RODA_OK);
    }
    const Outcome o = run(make_op(RODA_ALLREDUCE, "known", odd ? kFive : kFour, data, data));
    EXPECT_EQ(o.code, RODA_ERR_PRECONDITION);
    EXPECT_NE(o.message.find("rank 0: [5]"), std::string::npos) << o.message;
    ASSERT_EQ(run(make_op(RODA_ALLREDUCE, "known", kFive, data, data)).code, RODA_OK);
    std::fill(std::begin(data), std::end(data), 0.0f);
  }
}

TEST(Mismatch, OfABoolThatIsScaled) {
  const Shape shape{4};
  std::vector<std::uint8_t> bits(4, 1);
  roda_op op = make_op(RODA_ALLREDUCE, "bits", shape, bits.data(), bits.data(), RODA_BOOL);
  op.op = RODA_AVERAGE;
  const Outcome o = run(op);
  EXPECT_EQ(o.code, RODA_ERR_INVALID);
  EXPECT_NE(o.message.find("truth values can be neither averaged nor scaled"), std::string::npos) << o.message;
}

// Who has joined does not take part; those who go on are told, with the contract's words.
TEST(Join, OtherCollectivesAreRefusedMeanwhile) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  for (int round = 0; round < 2; ++round) {
    if (rank() != 0) {
      const Shape rows{2 * size()};
      for (const auto& [c, title] : {std::pair{RODA_ALLGATHER, "Allgather"}, std::pair{RODA_ALLTOALL, "Alltoall"},
                                     std::pair{RODA_BROADCAST, "Broadcast"}, std::pair{RODA_REDUCE, "Reduce"},
                                     std::pair{RODA_REDUCESCATTER, "Reducescatter"}}) {
        // The join may come after these were submitted: they wait for rank 0, and end when it has joined.
        const Outcome o = run(make_op(c, title, rows, data, c == RODA_BROADCAST ? data : nullptr));
        EXPECT_EQ(o.code, RODA_ERR_PRECONDITION) << title;
        EXPECT_EQ(o.message.find(std::string(title) + " is not supported with Join at this time."), 0u) << o.message;
      }
      float sum = 1, least = 1, product = 2, average = 1;
      const Shape one{1};
      roda_op op = make_op(RODA_ALLREDUCE, "sum", one, &sum, &sum);
      ASSERT_EQ(run(op).code, RODA_OK);
      op = make_op(RODA_ALLREDUCE, "least", one, &least, &least);
      op.op = RODA_MIN;
      ASSERT_EQ(run(op).code, RODA_OK);
      op = make_op(RODA_ALLREDUCE, "product", one, &product, &product);
      op.op = RODA_PRODUCT;
      ASSERT_EQ(run(op).code, RODA_OK);
      op = make_op(RODA_ALLREDUCE, "average", one, &average, &average);
      op.op = RODA_AVERAGE;
      ASSERT_EQ(run(op).code, RODA_OK);
      EXPECT_EQ(sum, static_cast<float>(size() - 1));
      EXPECT_EQ(least, 0.0f);
      EXPECT_EQ(product, 0.0f);
      EXPECT_FLOAT_EQ(average, static_cast<float>(size() - 1) / static_cast<float>(size()));
      ASSERT_EQ(run(make_op(RODA_BARRIER, "", {}, nullptr, nullptr)).code, RODA_OK);
    }
    roda_handle handle = 0;
    ASSERT_EQ(submit({make_op(RODA_JOIN, "", {}, nullptr, nullptr)}, &handle).code, RODA_OK);
    roda_error error{};
    ASSERT_EQ(roda_wait(handle, &error), RODA_OK);
    roda_output output{};
    ASSERT_EQ(roda_get_output(handle, 0, &output, &error), RODA_OK);
    EXPECT_NE(output.value, 0);
    roda_release(handle);
    expect_sum();
  }
}

// One rank submits two tensors as a group, the others one of them alone, and no more: nobody waits for the group.
TEST(Join, AGroupThatOthersSubmitInPart) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  float first = 1, second = 1;
  const Shape one{1};
  const roda_op shared = make_op(RODA_ALLREDUCE, "part", one, &second, &second);
  if (rank() == 0) {
    roda_handle handle = 0;
    ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, "rest", one, &first, &first), shared}, &handle).code, RODA_OK);
    ASSERT_EQ(wait(handle).code, RODA_OK);
    EXPECT_EQ(first, 1.0f);
  } else {
    ASSERT_EQ(run(shared).code, RODA_OK);
  }
  EXPECT_EQ(second, static_cast<float>(size()));
  ASSERT_EQ(run(make_op(RODA_JOIN, "", {}, nullptr, nullptr)).code, RODA_OK);
  expect_sum();
}

// Joins, and once more before that is over. False: it was over already, and the second join was a join of its own.
bool second_join_is_refused() {
  roda_handle first = 0, second = 0;
  EXPECT_EQ(submit({make_op(RODA_JOIN, "", {}, nullptr, nullptr)}, &first).code, RODA_OK);
  const Outcome o = submit({make_op(RODA_JOIN, "", {}, nullptr, nullptr)}, &second);
  const bool is_refused = o.code != RODA_OK;
  if (is_refused) {
    EXPECT_EQ(o.code, RODA_ERR_INVALID);
    EXPECT_NE(o.message.find("Requested to allreduce, allgather, or broadcast a tensor with the same name"),
              std::string::npos)
        << o.message;
  }
  EXPECT_EQ(wait(first).code, RODA_OK);
  EXPECT_EQ((is_refused ? run(make_op(RODA_JOIN, "", {}, nullptr, nullptr)) : wait(second)).code, RODA_OK);
  return is_refused;
}

// How far the other ranks are when rank 0 asks twice is theirs: tried until it came in between.
TEST(Join, TwiceAtOnceIsANameInUse) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  float seen = 0;
  for (int round = 0; round < 100 && seen == 0; ++round) {
    if (rank() == 0) {
      seen = second_join_is_refused() ? 1 : 0;
    } else {
      float x = 1;
      ASSERT_EQ(run(make_op(RODA_ALLREDUCE, "disputed", {1}, &x, &x)).code, RODA_OK);
      for (int joins = 0; joins < 2; ++joins) {
        ASSERT_EQ(run(make_op(RODA_JOIN, "", {}, nullptr, nullptr)).code, RODA_OK);
      }
    }
    ASSERT_EQ(run(make_op(RODA_BROADCAST, "seen", {1}, &seen, &seen)).code, RODA_OK);
  }
  EXPECT_EQ(seen, 1);
}

struct Local {
  const char* what;
  std::function<void(roda_op*)> change;
  int code;
  const char* text;
};

TEST(LocalErrors, HaveTheContractsWords) {
  static const std::int32_t too_much[64] = {1000};
  static const std::int32_t negative[64] = {-1};
  const Local locals[] = {
      {"set", [](roda_op* op) { op->process_set = 99; }, RODA_ERR_INVALID, "Process set provided does not exist"},
      {"root", [](roda_op* op) { op->collective = RODA_BROADCAST, op->root = 99; }, RODA_ERR_INVALID,
       "broadcast received invalid root rank 99 for provided process set"},
      {"splits", [](roda_op* op) { op->collective = RODA_ALLTOALL, op->splits = too_much, op->num_splits = size(); },
       RODA_ERR_INVALID, "Sum of splits entries is greater than"},
      {"negative", [](roda_op* op) { op->collective = RODA_ALLTOALL, op->splits = negative, op->num_splits = size(); },
       RODA_ERR_INVALID, "splits must not be negative"},
      {"number", [](roda_op* op) { op->collective = RODA_ALLTOALL, op->splits = too_much, op->num_splits = 63; },
       RODA_ERR_INVALID, "Number of entries in splits does not equal"},
      {"scatter", [](roda_op* op) { op->collective = RODA_REDUCESCATTER, op->op = RODA_MAX; }, RODA_ERR_ABORTED,
       "Reducescatter currently only supports AVERAGE and SUM."},
      {"op", [](roda_op* op) { op->op = 17; }, RODA_ERR_INVALID, "unknown reduce op 17"},
      {"dtype", [](roda_op* op) { op->dtype = 77; }, RODA_ERR_INVALID, "unknown dtype 77"},
      {"collective", [](roda_op* op) { op->collective = 77; }, RODA_ERR_INVALID, "unknown collective 77"},
      {"dimensions", [](roda_op* op) { op->ndim = 17; }, RODA_ERR_INVALID, "a shape of 0 to 16 dimensions"},
      {"buffer", [](roda_op* op) { op->output = nullptr; }, RODA_ERR_INVALID, "a buffer is missing"},
  };
  for (const Local& local : locals) {
    roda_op op = make_op(RODA_ALLREDUCE, "wrong", kFour, data, data);
    local.change(&op);
    roda_handle handle = 7;
    const Outcome o = submit({op}, &handle);
    EXPECT_EQ(o.code, local.code) << local.what;
    EXPECT_NE(o.message.find(local.text), std::string::npos) << local.what << ": " << o.message;
    EXPECT_EQ(handle, 0u);
  }
  if (size() > 1) {
    const Shape odd{size() + 1};
    const Outcome o = run(make_op(RODA_ALLTOALL, "uneven", odd, data, nullptr));
    EXPECT_EQ(o.code, RODA_ERR_INVALID);
    EXPECT_NE(o.message.find("splits not provided, but first dimension of tensor"), std::string::npos) << o.message;
  }
  // One wrong member: none of the group is queued, and its names are free.
  roda_op good = make_op(RODA_ALLREDUCE, "disputed", kFour, data, data);
  roda_op bad = make_op(RODA_ALLREDUCE, "bad", kFour, data, nullptr);
  roda_handle handle = 0;
  EXPECT_EQ(submit({good, bad}, &handle).code, RODA_ERR_INVALID);
  EXPECT_EQ(submit({good, good}, &handle).code, RODA_ERR_INVALID);
  expect_sum();
}

}  // namespace
}  // namespace roda::test
