// Counts beyond 2^31 and bytes beyond 2^32, as numbers alone: nothing here is allocated.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "core/execute/layout.h"
#include "core/execute/pack.h"
#include "core/launch/launch_run.h"
#include "core/negotiate/bucket.h"
#include "core/negotiate/request.h"

namespace roda {
namespace {

constexpr std::size_t kMany = (std::size_t{5} << 31) + 7;  // elements
constexpr int kSize = 3;

execute::StageArgs args_of(int collective, std::size_t count, const std::size_t* counts) {
  execute::StageArgs args;
  args.collective = collective;
  args.dtype = RODA_FLOAT64;
  args.count = count;
  args.send_counts = args.recv_counts = counts;
  args.max_count = count;
  return args;
}

// The slices of an allreduce's chunks follow one another without a gap, to the last byte.
TEST(Large, SlicesOfAnAllreduceCoverIt) {
  for (const bool in_blocks : {false, true}) {
    execute::Layout layout;
    layout.plan(args_of(RODA_ALLREDUCE, kMany, nullptr), 1, kSize, kSize, std::size_t{64} << 20, in_blocks);
    execute::SpaceMap in, out;
    std::size_t next = 0;
    for (std::size_t slice = 0; slice < layout.slices(); ++slice) {
      layout.map(slice, &in, &out);
      for (std::size_t c = 0; c < kSize; ++c) {
        ASSERT_EQ(out.user[c], next);
        next += out.prefix[c + 1] - out.prefix[c];
      }
    }
    EXPECT_EQ(next, kMany * 8);
  }
}

TEST(Large, GatheredAndScatteredChunksLieWhereTheyShould) {
  const std::size_t counts[kSize] = {kMany, 1, kMany + 5};
  const std::size_t total = 2 * kMany + 6;
  execute::SpaceMap in, out;
  execute::Layout layout;
  layout.plan(args_of(RODA_ALLGATHER, 0, counts), 2, kSize, kSize, 1 << 20, false);
  layout.map(0, &in, &out);
  EXPECT_EQ(layout.contribution_begin(), (kMany + 1) * 8);
  EXPECT_EQ(out.user[2], (kMany + 1) * 8);
  EXPECT_EQ(out.prefix[3], total * 8);
  layout.plan(args_of(RODA_REDUCESCATTER, total, counts), 2, kSize, kSize, 1 << 20, false);
  layout.map(0, &in, &out);
  EXPECT_EQ(in.user[2], (kMany + 1) * 8);
  EXPECT_EQ(out.prefix[1], (kMany + 5) * 8);
  layout.plan(args_of(RODA_ALLTOALL, kMany + 5, counts), 1, kSize, kSize, 1 << 20, true);
  std::size_t received = 0;
  for (std::size_t slice = 0; slice < layout.slices(); ++slice) {
    layout.map(slice, &in, &out);
    received += out.prefix[3];
  }
  EXPECT_EQ(received, total * 8);
}

TEST(Large, BucketsCountBytes) {
  const std::size_t counts[2][kSize] = {{kMany, 0, 3}, {1, kMany, kMany}};
  execute::BucketTensor tensors[2];
  for (int t = 0; t < 2; ++t) {
    tensors[t].count = kMany;
    tensors[t].counts = counts[t];
  }
  execute::Bucket bucket;
  bucket.lay_out_allreduce(tensors, 2, RODA_FLOAT32);
  EXPECT_EQ(bucket.bytes(), execute::align_up(kMany * 4) + kMany * 4);
  EXPECT_EQ(execute::aligned_elements(kMany, RODA_FLOAT32) * 4, execute::align_up(kMany * 4));
  bucket.lay_out_blocks(RODA_ALLGATHER, tensors, 2, RODA_FLOAT32, 2, kSize);
  EXPECT_EQ(bucket.bytes(), (3 * kMany + 4) * 4);
  EXPECT_EQ(bucket.own_begin(), 2 * kMany + 1);
  bucket.lay_out_blocks(RODA_REDUCESCATTER, tensors, 2, RODA_FLOAT32, 1, kSize);
  EXPECT_EQ(bucket.recv_counts()[2], kMany + 3);
}

TEST(Large, ReducescatterSlicesAddUp) {
  const std::int64_t rows = (std::int64_t{7} << 33) + 11;
  std::int64_t sum = 0;
  for (int rank = 0; rank < 1000; ++rank) sum += engine::reducescatter_rows(rows, 1000, rank);
  EXPECT_EQ(sum, rows);
}

negotiate::Request request(int rank, int collective, std::vector<std::int64_t> shape) {
  negotiate::Request r;
  r.rank = rank;
  r.name = "large";
  r.collective = collective;
  r.dtype = RODA_FLOAT64;
  r.shape = std::move(shape);
  return r;
}

TEST(Large, AgreementsCountInSixtyFourBits) {
  const auto a = request(0, RODA_ALLGATHER, {1 << 20, 1 << 20}), b = request(1, RODA_ALLGATHER, {3 << 20, 1 << 20});
  ASSERT_TRUE(negotiate::validate({&a, &b}, 2, false).ok());
  const auto agreed = negotiate::agree({&a, &b}, {0, 1}, 2);
  EXPECT_EQ(agreed->elements(1), std::int64_t{3} << 40);
  EXPECT_EQ(agreed->bytes(1), std::size_t{3} << 43);
  KeptQueue<negotiate::AgreedPtr> ready{agreed, agreed};
  negotiate::BucketRules rules;
  rules.threshold = SIZE_MAX;
  std::vector<negotiate::AgreedPtr> bucket;
  negotiate::take_bucket(&ready, rules, &bucket);
  EXPECT_EQ(bucket.size(), 1u);
}

// Together they would not be addressable: refused, not wrapped around.
TEST(Large, WhatNoMemoryHoldsIsRefused) {
  const auto a = request(0, RODA_ALLGATHER, {std::int64_t{1} << 59}),
             b = request(1, RODA_ALLGATHER, {std::int64_t{1} << 59});
  const Status s = negotiate::validate({&a, &b}, 2, false);
  EXPECT_EQ(s.code(), RODA_ERR_PRECONDITION);
  EXPECT_NE(s.message().find("larger than memory can be"), std::string::npos) << s.message();
  const std::int64_t most = INT64_MAX;
  const auto c = request(0, RODA_ALLGATHER, {most, 0}), d = request(1, RODA_ALLGATHER, {most, 0});
  EXPECT_FALSE(negotiate::validate({&c, &d}, 2, false).ok());
}

}  // namespace
}  // namespace roda
