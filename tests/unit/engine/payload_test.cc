// A launch's tensors as a stage works on them, with no stage: the test does to the buffers what a collective would.
#include "core/launch/payload.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace roda::engine {
namespace {

using Floats = std::vector<float>;

// Rank 1 of a process set of world ranks 2, 4 and 7.
constexpr std::int32_t kRanks[] = {2, 4, 7};
constexpr int kRank = 1;

class PayloadTest : public ::testing::Test {
 protected:
  // A tensor of the launch, of this rank's shape; `rows` of every rank, equal ones unless given.
  Operation* add(const std::string& name, const Floats& input, Floats* output, std::vector<std::int64_t> rows = {}) {
    auto agreed = std::make_shared<negotiate::Agreed>(form_);
    agreed->name = name;
    agreed->rows = rows.empty() ? std::vector<std::int64_t>(3, static_cast<std::int64_t>(input.size())) : rows;
    agreed->shape = {agreed->rows.front()};
    agreed->all_rows = std::accumulate(agreed->rows.begin(), agreed->rows.end(), std::int64_t{0});
    launch_.tensors.push_back(agreed);
    launch_.bytes += input.size() * sizeof(float);
    auto operation = std::make_unique<Operation>();
    operation->request.collective = form_.collective;
    operation->request.shape = {static_cast<std::int64_t>(input.size())};
    operation->input = input.data();
    if (output != nullptr) operation->output = output->data();
    owned_.push_back(std::move(operation));
    operations_.push_back(owned_.back().get());
    return operations_.back();
  }

  Status prepare(const Work& work, bool takes_buckets = false) {
    payload_.begin(launch_, &operations_, {kRanks, kRank}, execute::DeviceQueue());
    return payload_.prepare(work, {nullptr, {}, takes_buckets, false}, &args_);
  }
  const float* input() const { return static_cast<const float*>(args_.input); }
  float* output() const { return static_cast<float*>(args_.output); }
  static Floats result(const Operation* op, std::size_t count) {
    const auto* data = static_cast<const float*>(op->output);
    return {data, data + count};
  }

  negotiate::Agreed form_;  // what the tensors have in common
  negotiate::Launch launch_;
  std::vector<std::unique_ptr<Operation>> owned_;
  std::vector<Operation*> operations_;
  execute::StageArgs args_;
  Payload payload_;
};

TEST_F(PayloadTest, OneTensorIsReducedWhereItLiesAndAveragedAfterwards) {
  const Floats in{3, 6, 9};
  Floats out(3);
  add("gradient", in, &out);
  ASSERT_TRUE(prepare({RODA_ALLREDUCE, RODA_AVERAGE, false}).ok());
  EXPECT_EQ(args_.input, in.data());
  EXPECT_EQ(args_.output, out.data());
  EXPECT_EQ(args_.count, 3u);
  out = {9, 18, 27};
  ASSERT_TRUE(payload_.finish().ok());
  EXPECT_EQ(out, (Floats{3, 6, 9}));
}

TEST_F(PayloadTest, AnAverageOfTheStagesIsNotTakenTwice) {
  const Floats in{3};
  Floats out(1);
  add("gradient", in, &out);
  ASSERT_TRUE(prepare({RODA_ALLREDUCE, RODA_AVERAGE, true}).ok());
  out = {5};
  ASSERT_TRUE(payload_.finish().ok());
  EXPECT_EQ(out, Floats{5});
}

TEST_F(PayloadTest, SeveralTensorsTravelInOneBufferWithTheirFactors) {
  form_.prescale = 2;
  form_.postscale = 10;
  const Floats a{1, 2}, b{5};
  Floats x(2), y(1);
  add("a", a, &x);
  add("b", b, &y);
  ASSERT_TRUE(prepare({RODA_ALLREDUCE, RODA_SUM, false}).ok());
  EXPECT_EQ(args_.input, args_.output);
  EXPECT_EQ(Floats(input(), input() + 2), (Floats{2, 4}));
  EXPECT_EQ(input()[16], 10) << "each tensor begins on a line of its own";
  output()[0] = 7;
  ASSERT_TRUE(payload_.finish().ok());
  EXPECT_EQ(x, (Floats{70, 40}));
  EXPECT_EQ(y, Floats{100});
  EXPECT_EQ(a, (Floats{1, 2})) << "inputs are only read";
}

TEST_F(PayloadTest, AStageThatTakesBucketsGetsThemUncopied) {
  const Floats a{1}, b{2};
  Floats x(1), y(1);
  add("a", a, &x);
  add("b", b, &y);
  ASSERT_TRUE(prepare({RODA_ALLREDUCE, RODA_SUM, false}, true).ok());
  EXPECT_NE(args_.bucket, nullptr);
  EXPECT_EQ(args_.input, nullptr);
  x = {8};
  ASSERT_TRUE(payload_.finish().ok());
  EXPECT_EQ(x, Floats{8}) << "the stage has scaled it";
}

// It has joined: it gives zeros and drops the result.
TEST_F(PayloadTest, AMissingTensorIsZeros) {
  const Floats in{4, 4};
  Floats out(2);
  add("a", in, &out);
  operations_.front() = nullptr;
  ASSERT_TRUE(prepare({RODA_ALLREDUCE, RODA_SUM, false}).ok());
  ASSERT_GE(args_.count, 2u);
  EXPECT_EQ(Floats(input(), input() + 2), (Floats{0, 0}));
  EXPECT_TRUE(payload_.finish().ok());
}

TEST_F(PayloadTest, AnAllgatherHasRoomForWhatEveryRankGives) {
  form_.collective = RODA_ALLGATHER;
  const Floats in{1, 2};
  const Operation* op = add("rows", in, nullptr, {3, 2, 0});
  ASSERT_TRUE(prepare({RODA_ALLGATHER, RODA_SUM, false}).ok());
  EXPECT_EQ(std::vector<std::size_t>(args_.recv_counts, args_.recv_counts + 3), (std::vector<std::size_t>{3, 2, 0}));
  EXPECT_EQ(op->result_shape, std::vector<std::int64_t>{5});
  EXPECT_EQ(args_.output, op->output);
}

TEST_F(PayloadTest, SeveralAllgathersAreSortedByTensorAgain) {
  form_.collective = RODA_ALLGATHER;
  const Floats a{1}, b{2, 3};
  const Operation* first = add("a", a, nullptr, {1, 1, 1});
  const Operation* second = add("b", b, nullptr, {0, 2, 1});
  ASSERT_TRUE(prepare({RODA_ALLGATHER, RODA_SUM, false}).ok());
  EXPECT_EQ(Floats(input(), input() + 3), (Floats{1, 2, 3})) << "what this rank gives lies together";
  const Floats all{10, 1, 2, 3, 30, 31};  // of ranks 2, 4 and 7: a, then b
  std::copy(all.begin(), all.end(), output());
  ASSERT_TRUE(payload_.finish().ok());
  EXPECT_EQ(result(first, 3), (Floats{10, 1, 30}));
  EXPECT_EQ(result(second, 3), (Floats{2, 3, 31}));
}

TEST_F(PayloadTest, AReduceScatterKeepsThisRanksRows) {
  form_.collective = RODA_REDUCESCATTER;
  const Floats in{1, 2, 3, 4};
  const Operation* op = add("rows", in, nullptr);
  ASSERT_TRUE(prepare({RODA_REDUCESCATTER, RODA_AVERAGE, false}).ok());
  EXPECT_EQ(std::vector<std::size_t>(args_.recv_counts, args_.recv_counts + 3), (std::vector<std::size_t>{2, 1, 1}));
  EXPECT_EQ(op->result_shape, std::vector<std::int64_t>{1});
  output()[0] = 9;
  ASSERT_TRUE(payload_.finish().ok());
  EXPECT_EQ(result(op, 1), Floats{3});
}

TEST_F(PayloadTest, AnAlltoallTakesItsColumnOfTheSplits) {
  form_.collective = RODA_ALLTOALL;
  form_.splits = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  const Floats in(12);
  const Operation* op = add("rows", in, nullptr, {3, 12, 21});
  ASSERT_TRUE(prepare({RODA_ALLTOALL, RODA_SUM, false}).ok());
  EXPECT_EQ(std::vector<std::size_t>(args_.send_counts, args_.send_counts + 3), (std::vector<std::size_t>{3, 4, 5}));
  EXPECT_EQ(std::vector<std::size_t>(args_.recv_counts, args_.recv_counts + 3), (std::vector<std::size_t>{1, 4, 7}));
  EXPECT_EQ(op->received_splits, (std::vector<std::int32_t>{1, 4, 7}));
  EXPECT_EQ(op->result_shape, std::vector<std::int64_t>{12});
  EXPECT_EQ(args_.max_count, 8u);
  EXPECT_EQ(args_.all_counts, nullptr);
}

TEST_F(PayloadTest, AloneEveryCollectiveIsACopyAndTheFactors) {
  form_.prescale = 3;
  const Floats in{1, 2};
  Floats out(2);
  add("a", in, &out, {2});
  payload_.begin(launch_, &operations_, {std::span(kRanks, 1), 0}, execute::DeviceQueue());
  ASSERT_TRUE(payload_.run_locally({RODA_ALLREDUCE, RODA_AVERAGE, false}).ok());
  EXPECT_EQ(out, (Floats{3, 6}));
}

}  // namespace
}  // namespace roda::engine
