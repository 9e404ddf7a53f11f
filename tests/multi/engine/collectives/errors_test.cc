// What ranks disagree on, what is refused at once, and the end of the engine, which must be the last test.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/multi/engine/collectives/values.h"

namespace roda::test {
namespace {

TEST(Mismatch, EndsOnEveryRankAndLeavesTheEngineUsable) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  const bool odd = rank() == size() - 1;
  const std::string name = "mismatch";
  std::vector<double> data(64, 1);
  auto expect_error = [&](roda_op op, const std::string& begin) {
    const Outcome o = run(op);
    EXPECT_EQ(o.code, RODA_ERR_PRECONDITION);
    EXPECT_EQ(o.message.find(begin), 0u) << o.message;
    EXPECT_NE(o.message.find(std::to_string(size() - 1)), std::string::npos) << o.message;
  };
  const Shape a{4};
  const Shape b{5};
  roda_op op = make_op(RODA_ALLREDUCE, name, odd ? b : a, data.data(), data.data());
  expect_error(op, "Mismatched ALLREDUCE tensor shapes");
  op = make_op(RODA_ALLREDUCE, name, a, data.data(), data.data(), odd ? RODA_FLOAT64 : RODA_FLOAT32);
  expect_error(op, "Mismatched data types");
  op = make_op(RODA_ALLREDUCE, name, a, data.data(), data.data());
  op.op = odd ? RODA_MAX : RODA_SUM;
  expect_error(op, "Mismatched reduction operation");
  op.op = RODA_SUM;
  op.prescale = odd ? 2 : 1;
  expect_error(op, "Mismatched prescale and/or postscale factors");
  op.prescale = 1;
  op.collective = odd ? RODA_ALLGATHER : RODA_ALLREDUCE;
  expect_error(op, "Mismatched operations");
  op = make_op(RODA_BROADCAST, name, a, data.data(), data.data());
  op.root = odd ? 1 : 0;
  expect_error(op, "Mismatched BROADCAST root ranks");
  std::vector<float> good = mine(10);
  const Shape ten{10};
  ASSERT_EQ(run(make_op(RODA_ALLREDUCE, "mismatch", ten, good.data(), good.data())).code, RODA_OK);
  expect_sum(good);
}

TEST(LocalErrors, AreToldAtOnce) {
  std::vector<float> data(8);
  const Shape shape{8};
  const std::string name = "twice";
  const roda_op op = make_op(RODA_ALLREDUCE, name, shape, data.data(), data.data());
  roda_op first = op;
  roda_handle handle = 0;
  roda_handle second = 0;
  // The first can't end before every rank has submitted it, so that the second is a duplicate for sure where it is not
  // the last to submit; a job of one rank may be done by then.
  if (size() > 1 && rank() == 0) {
    ASSERT_EQ(submit({first}, &handle).code, RODA_OK);
    const Outcome o = submit({op}, &second);
    EXPECT_EQ(o.code, RODA_ERR_INVALID);
    EXPECT_NE(o.message.find("same name"), std::string::npos) << o.message;
  }
  ASSERT_EQ(run(make_op(RODA_BARRIER, "", {}, nullptr, nullptr)).code, RODA_OK);
  if (handle == 0) {
    ASSERT_EQ(submit({first}, &handle).code, RODA_OK);
  }
  ASSERT_EQ(wait(handle).code, RODA_OK);

  roda_op bad = op;
  bad.process_set = 77;
  EXPECT_EQ(run(bad).code, RODA_ERR_INVALID);
  bad = op;
  bad.struct_size -= 8;  // compiled with another roda.h
  const Outcome other = run(bad);
  EXPECT_EQ(other.code, RODA_ERR_INVALID);
  EXPECT_NE(other.message.find("this version's roda.h"), std::string::npos) << other.message;
  bad = make_op(RODA_BROADCAST, name, shape, data.data(), data.data());
  bad.root = size();
  EXPECT_EQ(run(bad).code, RODA_ERR_INVALID);
  EXPECT_EQ(run(make_op(RODA_ALLREDUCE, "", shape, data.data(), data.data())).code, RODA_ERR_INVALID);
  EXPECT_EQ(roda_poll(12345), RODA_ERR_INVALID);
}

// The last test: it ends the engine.
TEST(ZLifeCycle, ShutdownAndInitAgain) {
  const int number = rank();
  for (int round = 0; round < 3; ++round) {
    roda_shutdown();
    EXPECT_EQ(roda_is_initialized(), 0);
    EXPECT_EQ(roda_rank(), -1);
    roda_error error{};
    error.struct_size = sizeof error;
    ASSERT_EQ(roda_init(nullptr, &error), RODA_OK) << error.message;
    EXPECT_EQ(rank(), number);
    std::vector<float> data = mine(100);
    const Shape shape{100};
    ASSERT_EQ(run(make_op(RODA_ALLREDUCE, "again", shape, data.data(), data.data())).code, RODA_OK);
    expect_sum(data);
  }
}

}  // namespace
}  // namespace roda::test
