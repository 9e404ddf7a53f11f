#include "core/execute/pack.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace roda::execute {
namespace {

std::vector<float> iota(std::size_t count, float from) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), from);
  return values;
}

TEST(Bucket, AllreduceTensorsBeginOnLinesWithZeroesBetween) {
  const auto a = iota(5, 1), b = iota(17, 100), c = iota(1, 7);
  std::vector<float> out_a(5), out_b(17), out_c(1);
  const BucketTensor tensors[] = {
      {a.data(), out_a.data(), 5}, {b.data(), out_b.data(), 17}, {c.data(), out_c.data(), 1}};
  Bucket bucket;
  bucket.lay_out_allreduce(tensors, 3, RODA_FLOAT32);
  ASSERT_EQ(bucket.elements(), 16u + 32u + 1u);
  std::vector<float> buffer(bucket.elements(), -1.0f);
  ASSERT_TRUE(bucket.pack(buffer.data(), 2.0).ok());
  EXPECT_EQ(buffer[4], 10.0f);
  EXPECT_EQ(buffer[5], 0.0f);
  EXPECT_EQ(buffer[16], 200.0f);
  EXPECT_EQ(buffer[47], 0.0f);
  EXPECT_EQ(buffer[48], 14.0f);
  ASSERT_TRUE(bucket.unpack(buffer.data(), 0.5).ok());
  EXPECT_EQ(out_a, a);
  EXPECT_EQ(out_b, b);
  EXPECT_EQ(out_c, c);
}

TEST(Bucket, AJoinedRankGivesZerosAndKeepsNothing) {
  const BucketTensor tensors[] = {{nullptr, nullptr, 5}, {nullptr, nullptr, 9000}};
  Bucket bucket;
  bucket.lay_out_allreduce(tensors, 2, RODA_FLOAT32);
  std::vector<float> buffer(bucket.elements(), -1.0f);
  ASSERT_TRUE(bucket.pack(buffer.data(), 1.0).ok());
  EXPECT_EQ(buffer, std::vector<float>(bucket.elements(), 0.0f));
  EXPECT_TRUE(bucket.unpack(buffer.data(), 3.0).ok());
}

// Two tensors over three ranks: every rank packs its block, the blocks together unpack to both tensors.
TEST(Bucket, AllgatherIsRankMajor) {
  const std::size_t counts_a[] = {2, 0, 3}, counts_b[] = {1, 4, 2};
  const auto whole_a = iota(5, 0), whole_b = iota(7, 50);
  std::vector<float> buffer(12, -1.0f);
  std::vector<float> out_a(5), out_b(7);
  Bucket bucket;
  std::size_t at_a = 0, at_b = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const BucketTensor tensors[] = {{whole_a.data() + at_a, out_a.data(), 0, counts_a},
                                    {whole_b.data() + at_b, out_b.data(), 0, counts_b}};
    bucket.lay_out_blocks(RODA_ALLGATHER, tensors, 2, RODA_FLOAT32, rank, 3);
    ASSERT_TRUE(bucket.pack(buffer.data(), 1.0).ok());
    at_a += counts_a[rank];
    at_b += counts_b[rank];
  }
  EXPECT_EQ(bucket.elements(), 12u);
  EXPECT_EQ(bucket.own_begin(), 7u);
  EXPECT_EQ(bucket.recv_counts()[1], 4u);
  EXPECT_EQ(buffer, (std::vector<float>{0, 1, 50, 51, 52, 53, 54, 2, 3, 4, 55, 56}));
  ASSERT_TRUE(bucket.unpack(buffer.data(), 1.0).ok());
  EXPECT_EQ(out_a, whole_a);
  EXPECT_EQ(out_b, whole_b);
}

TEST(Bucket, ReduceScatterIsRankMajorSlices) {
  const std::size_t counts_a[] = {2, 1, 1}, counts_b[] = {1, 1, 0};
  const auto a = iota(4, 0), b = iota(2, 50);
  std::vector<float> out_a(1), out_b(1);
  const BucketTensor tensors[] = {{a.data(), out_a.data(), 0, counts_a}, {b.data(), out_b.data(), 0, counts_b}};
  Bucket bucket;
  bucket.lay_out_blocks(RODA_REDUCESCATTER, tensors, 2, RODA_FLOAT32, 1, 3);
  std::vector<float> buffer(bucket.elements());
  ASSERT_TRUE(bucket.pack(buffer.data(), 1.0).ok());
  EXPECT_EQ(buffer, (std::vector<float>{0, 1, 50, 2, 51, 3}));
  EXPECT_EQ(bucket.recv_counts()[0], 3u);
  std::vector<float> result = {8, 9};
  ASSERT_TRUE(bucket.unpack(result.data(), 2.0).ok());
  EXPECT_EQ(out_a[0], 16.0f);
  EXPECT_EQ(out_b[0], 18.0f);
}

}  // namespace
}  // namespace roda::execute
