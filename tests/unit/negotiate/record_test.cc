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

negotiate::Refinement some_refinement() {
  negotiate::Refinement r;
  r.set = 5;
  r.of = {RODA_ALLGATHER, RODA_BFLOAT16, RODA_MAX, 21};
  r.launches = 40;
  r.after = 17;
  r.option = "near/ring";
  r.present = "levels/hierarchical";
  r.option_seconds = 0.25;
  r.present_seconds = 1e-6;
  return r;
}

// As the other side reads it.
Status told(const negotiate::Refinement& r, negotiate::Refinement* got) {
  RecordWriter writer;
  writer.begin(0, 1);
  writer.refine(r);
  RecordReader reader(writer.end());
  ItemView item;
  EXPECT_TRUE(reader.next(&item));
  EXPECT_EQ(item.kind, Item::kRefine);
  const Status status = read_refinement(item, got);
  EXPECT_FALSE(reader.next(&item));
  return status;
}

TEST(Record, RefinementsSurviveTheTrip) {
  const negotiate::Refinement r = some_refinement();
  negotiate::Refinement got;
  ASSERT_TRUE(told(r, &got).ok());
  EXPECT_EQ(got.set, 5);
  EXPECT_EQ(got.change, r.change);
  EXPECT_EQ(got.of, r.of);
  EXPECT_EQ(got.launches, 40u);
  EXPECT_EQ(got.after, 17u);
  EXPECT_EQ(got.option, r.option);
  EXPECT_EQ(got.present, r.present);
  EXPECT_EQ(got.option_seconds, r.option_seconds);
  EXPECT_EQ(got.present_seconds, r.present_seconds);
}

TEST(Record, RefinementsThatCannotBeAreRefused) {
  using Spoil = void (*)(negotiate::Refinement*);
  const Spoil spoils[] = {
      [](auto* r) { r->change = static_cast<negotiate::Change>(0); },
      [](auto* r) { r->change = static_cast<negotiate::Change>(4); },
      [](auto* r) { r->launches = 0; },
      [](auto* r) { r->launches = negotiate::Refinement::kMostLaunches + 1; },
      [](auto* r) { r->change = negotiate::Change::kKeep; },
      [](auto* r) { r->of.collective = RODA_COLLECTIVE_COUNT; },
      [](auto* r) { r->of.collective = -1; },
      [](auto* r) { r->of.dtype = 99; },
      [](auto* r) { r->of.magnitude = -1; },
      [](auto* r) { r->of.magnitude = 65; },
      [](auto* r) { r->option.clear(); },
      [](auto* r) { r->option.assign(257, 'x'); },
      [](auto* r) { r->present.assign(257, 'x'); },
      [](auto* r) { r->option_seconds = -1; },
      [](auto* r) { r->present_seconds = std::nan(""); },
  };
  int number = 0;
  for (const Spoil spoil : spoils) {
    negotiate::Refinement r = some_refinement(), got;
    spoil(&r);
    const Status status = told(r, &got);
    EXPECT_FALSE(status.ok()) << number;
    EXPECT_NE(status.message().find("malformed control record: "), std::string::npos) << status.message();
    EXPECT_TRUE(got.option.empty()) << number;
    ++number;
  }
}

TEST(Record, CutRefinementsAreRefused) {
  RecordWriter writer;
  writer.begin(0, 1);
  writer.refine(some_refinement());
  RecordReader reader(writer.end());
  ItemView item;
  ASSERT_TRUE(reader.next(&item));
  const auto whole = item.payload;
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    negotiate::Refinement got;
    item.payload = whole.first(bytes);
    EXPECT_FALSE(read_refinement(item, &got).ok()) << bytes;
  }
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
