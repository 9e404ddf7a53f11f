#include "core/wire/record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/unit/negotiate/simulated_job.h"

namespace roda::wire {
namespace {

TEST(Record, RequestSurvivesTheTrip) {
  negotiate::Request r = negotiate::make_request(3, "layer/weight", {2, 0, 7}, RODA_ALLTOALL, RODA_BFLOAT16);
  r.set = 5;
  r.root = 2;
  r.device = 1;
  r.prescale = 0.5;
  r.postscale = 1.0 / 3;
  r.op = RODA_MAX;
  r.splits = {1, 1, 0};
  RecordWriter writer;
  writer.begin(3, 42);
  writer.request(r);
  RecordReader reader(writer.end());
  EXPECT_EQ(reader.header().rank, 3);
  EXPECT_EQ(reader.header().applied, 42u);
  ItemView item;
  ASSERT_TRUE(reader.next(&item));
  negotiate::Request got;
  ASSERT_TRUE(read_request(item, 3, &got).ok());
  EXPECT_EQ(got.name, r.name);
  EXPECT_EQ(got.shape, r.shape);
  EXPECT_EQ(got.splits, r.splits);
  EXPECT_EQ(got.set, 5);
  EXPECT_EQ(got.root, 2);
  EXPECT_EQ(got.device, 1);
  EXPECT_EQ(got.op, RODA_MAX);
  EXPECT_EQ(got.dtype, RODA_BFLOAT16);
  EXPECT_EQ(got.collective, RODA_ALLTOALL);
  EXPECT_EQ(got.prescale, r.prescale);
  EXPECT_EQ(got.postscale, r.postscale);
  EXPECT_FALSE(reader.next(&item));
  EXPECT_TRUE(reader.status().ok());
}

TEST(Record, ManyCachedTensorsFitOneCell) {
  RecordWriter writer;
  writer.begin(0, 1);
  const std::vector<std::uint64_t> words(3, ~std::uint64_t{0});  // 192 tensors
  writer.bits(0, 0, words);
  EXPECT_LE(writer.end().size(), 112u);
}

TEST(Record, EveryCutIsNoticedOrHarmless) {
  RecordWriter writer;
  writer.begin(1, 1);
  writer.request(negotiate::make_request(1, "x"));
  writer.number(Item::kFinished, 0, 9);
  const auto whole = writer.end();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    RecordReader reader(whole.subspan(0, n));
    EXPECT_FALSE(reader.status().ok()) << n;
  }
}

}  // namespace
}  // namespace roda::wire
