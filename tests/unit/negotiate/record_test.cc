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
  r.wire_format = RODA_WIRE_INT4;
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
  EXPECT_EQ(got.wire_format, RODA_WIRE_INT4);
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

// As the other side reads it.
Status told(const negotiate::Request& r) {
  RecordWriter writer;
  writer.begin(0, 1);
  writer.request(r);
  RecordReader reader(writer.end());
  ItemView item;
  EXPECT_TRUE(reader.next(&item));
  negotiate::Request got;
  return read_request(item, 0, &got);
}

TEST(Record, RequestsThatNobodyMaySubmitAreRefused) {
  using Spoil = void (*)(negotiate::Request*);
  const Spoil spoils[] = {
      [](auto* r) { r->name.assign(negotiate::kMostNameBytes + 1, 'x'); },
      [](auto* r) {
        r->shape = {2, -1};
      },
      [](auto* r) {
        r->shape = {std::int64_t{1} << 40, std::int64_t{1} << 30};
      },
      [](auto* r) {
        r->shape = {0, std::int64_t{1} << 62};
      },
      [](auto* r) { r->shape.assign(17, 1); },
      [](auto* r) { r->op = -1; },
      [](auto* r) { r->op = RODA_REDUCE_OP_COUNT; },
      [](auto* r) { r->group.size = -1; },
      [](auto* r) { r->dtype = RODA_DTYPE_COUNT; },
      [](auto* r) { r->collective = RODA_COLLECTIVE_COUNT; },
  };
  EXPECT_TRUE(told(negotiate::make_request(0, "x")).ok());
  int number = 0;
  for (const Spoil spoil : spoils) {
    negotiate::Request r = negotiate::make_request(0, "x");
    spoil(&r);
    const Status status = told(r);
    EXPECT_EQ(status.message().find("malformed control record: "), 0u) << number << ": " << status.message();
    ++number;
  }
}

TEST(Record, ListsOfNobodyAndNothingAreRead) {
  RecordWriter writer;
  writer.begin(0, 1);
  writer.add_set({});
  writer.bits(0, 3, {});
  RecordReader reader(writer.end());
  ItemView item;
  ASSERT_TRUE(reader.next(&item));
  std::vector<std::int32_t> ranks{7};
  EXPECT_TRUE(read_ranks(item, &ranks).ok());
  EXPECT_TRUE(ranks.empty());
  EXPECT_FALSE(reader.next(&item));  // no bits are no item
  const std::uint32_t head[2] = {3, 0};
  item = {Item::kBits, 0, std::as_bytes(std::span(head))};
  Bits bits;
  EXPECT_TRUE(read_bits(item, &bits).ok());
  bits.each([](int) { FAIL(); });
}

TEST(Record, OneRanksBitsAndWhatItHasFinishedFitIntoACacheLineOfTheLog) {
  const std::uint64_t word = 1;
  RecordWriter writer;
  writer.begin(0, 1);
  writer.bits(0, 0, std::span(&word, 1));
  writer.number(Item::kFinished, 0, 9);
  EXPECT_LE(writer.end().size() + sizeof(std::uint64_t), 64u);
}

TEST(Record, ATuningIsReadOrRefused) {
  RecordWriter writer;
  writer.begin(0, 1);
  const negotiate::Tuning said{64u << 20, 2500, 4, "allreduce = shm/ring"};
  writer.tuning(said);
  RecordReader reader(writer.end());
  ItemView item;
  ASSERT_TRUE(reader.next(&item));
  EXPECT_EQ(item.kind, Item::kTuning);
  negotiate::Tuning tuning;
  ASSERT_TRUE(read_tuning(item, &tuning).ok());
  EXPECT_EQ(tuning, said);
  EXPECT_NE(read_tuning({Item::kTuning, 0, item.payload.first(8)}, &tuning).message().find("a cut tuning"),
            std::string::npos);
  const std::vector<std::byte> zeros(16);
  EXPECT_FALSE(read_tuning({Item::kTuning, 0, zeros}, &tuning).ok());
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
