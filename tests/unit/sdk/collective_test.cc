#include <gtest/gtest.h>
#include <roda/sdk/collective.hpp>

#include <array>

namespace roda::sdk {
namespace {

TEST(Collective, PlainOnesAreWhatLibrariesHave) {
  EXPECT_TRUE(is_plain(RODA_ALLREDUCE, RODA_FLOAT16, RODA_PRODUCT));
  EXPECT_FALSE(is_plain(RODA_ALLREDUCE, RODA_FLOAT32, RODA_AVERAGE));
  EXPECT_TRUE(is_plain(RODA_ALLTOALL, RODA_FLOAT8_E4M3FN, RODA_AVERAGE));  // moved, whatever the op
  EXPECT_FALSE(is_plain(RODA_ALLREDUCE, RODA_FLOAT8_E4M3FN, RODA_SUM));
  EXPECT_TRUE(is_plain(RODA_BARRIER, -1, -1));
  for (const int none : {static_cast<int>(RODA_ADASUM_ALLREDUCE), static_cast<int>(RODA_JOIN), -1, 1000}) {
    EXPECT_FALSE(is_plain(none, RODA_FLOAT32, RODA_SUM)) << none;
  }
}

TEST(Collective, ElementsFollowFromTheTable) {
  const std::array<std::size_t, 3> sent{1, 2, 3}, received{4, 5, 6};
  const auto expect = [&](int collective, int rank, std::size_t input, std::size_t output) {
    roda_collective_args args{};
    args.collective = collective;
    args.root = 1;
    args.count = 100;
    args.send_counts = sent.data();
    args.recv_counts = received.data();
    const Elements elements = elements_of(args, rank, 3);
    EXPECT_EQ(elements.input, input) << roda_collective_name(collective);
    EXPECT_EQ(elements.output, output) << roda_collective_name(collective);
  };
  expect(RODA_ALLREDUCE, 0, 100, 100);
  expect(RODA_BROADCAST, 0, 100, 100);
  expect(RODA_REDUCE, 0, 100, 0);
  expect(RODA_REDUCE, 1, 100, 100);
  expect(RODA_ALLGATHER, 1, 5, 15);
  expect(RODA_REDUCESCATTER, 1, 15, 5);
  expect(RODA_ALLTOALL, 1, 6, 15);
  expect(RODA_BARRIER, 1, 0, 0);
}

TEST(Collective, AGroupOfOneCopiesAndIsDone) {
  std::array<float, 2> input{1, 2}, output{};
  roda_collective_args args{};
  args.collective = RODA_ALLREDUCE;
  args.dtype = RODA_FLOAT32;
  args.count = input.size();
  args.input = input.data();
  args.output = output.data();
  EXPECT_FALSE(is_trivial(args, 2));
  EXPECT_TRUE(is_trivial(args, 1));
  EXPECT_EQ(output, input);
  args.count = 0;
  EXPECT_TRUE(is_trivial(args, 2));
  const std::array<std::size_t, 2> none{};
  args.collective = RODA_ALLTOALL;
  args.send_counts = args.recv_counts = none.data();
  EXPECT_FALSE(is_trivial(args, 2));  // the others may have something for each other
}

}  // namespace
}  // namespace roda::sdk
