#include "core/negotiate/bucket.h"

#include <gtest/gtest.h>

namespace roda::negotiate {
namespace {

AgreedPtr tensor(const std::string& name, std::int64_t elements, int dtype = RODA_FLOAT32,
                 int collective = RODA_ALLREDUCE) {
  auto a = std::make_shared<Agreed>();
  a->name = name;
  a->rows = {elements, elements};
  a->all_rows = 2 * elements;
  a->dtype = dtype;
  a->collective = collective;
  return a;
}

BucketRules rules(std::size_t threshold, std::size_t limit) {
  BucketRules r;
  r.threshold = threshold;
  r.limit = limit;
  return r;
}

std::vector<AgreedPtr> take(KeptQueue<AgreedPtr>* ready, const BucketRules& rules) {
  std::vector<AgreedPtr> bucket;
  take_bucket(ready, rules, &bucket);
  return bucket;
}

std::string names(const std::vector<AgreedPtr>& bucket) {
  std::string text;
  for (const auto& t : bucket) text += t->name;
  return text;
}

TEST(Bucket, TakesAlikeTensorsPastOthers) {
  KeptQueue<AgreedPtr> ready{tensor("a", 8), tensor("b", 8, RODA_INT32), tensor("c", 8),
                             tensor("d", 8, RODA_FLOAT32, RODA_BROADCAST), tensor("e", 8)};
  EXPECT_EQ(names(take(&ready, rules(1 << 20, 1 << 16))), "ace");
  EXPECT_EQ(names(take(&ready, rules(1 << 20, 1 << 16))), "b");
  EXPECT_EQ(names(take(&ready, rules(1 << 20, 1 << 16))), "d");
  EXPECT_TRUE(ready.empty());
}

TEST(Bucket, StopsAtTheThreshold) {
  KeptQueue<AgreedPtr> ready{tensor("a", 100), tensor("b", 100), tensor("c", 300), tensor("d", 50)};
  EXPECT_EQ(names(take(&ready, rules(1000, 1 << 16))), "abd");
  EXPECT_EQ(names(take(&ready, rules(1000, 1 << 16))), "c");
}

TEST(Bucket, LargeTensorsTravelAlone) {
  KeptQueue<AgreedPtr> ready{tensor("L", 1000), tensor("a", 10), tensor("b", 10)};
  EXPECT_EQ(names(take(&ready, rules(1 << 20, 400))), "L");
  EXPECT_EQ(names(take(&ready, rules(1 << 20, 400))), "ab");
}

TEST(Bucket, ThresholdZeroFusesNothing) {
  KeptQueue<AgreedPtr> ready{tensor("a", 10), tensor("b", 10)};
  EXPECT_EQ(names(take(&ready, rules(0, 400))), "a");
}

TEST(Bucket, EveryCollectiveFusesWithItsOwnKind) {
  KeptQueue<AgreedPtr> ready;
  for (const char* round : {"1", "2"}) {
    for (const int c : {RODA_ALLGATHER, RODA_BROADCAST, RODA_REDUCESCATTER, RODA_ADASUM_ALLREDUCE, RODA_ALLTOALL}) {
      ready.push_back(tensor(std::string(roda_collective_name(c)).substr(0, 2) + round, 10, RODA_FLOAT32, c));
    }
  }
  auto other_root = std::make_shared<Agreed>(*tensor("BRx", 10, RODA_FLOAT32, RODA_BROADCAST));
  other_root->root = 1;
  ready.push_back(other_root);
  std::vector<std::string> buckets;
  while (!ready.empty()) buckets.push_back(names(take(&ready, rules(1 << 20, 0))));
  EXPECT_EQ(buckets, (std::vector<std::string>{"AL1AL2", "BR1BR2", "RE1RE2", "AD1AD2", "AL1", "AL2", "BRx"}));
}

TEST(Bucket, HasOneWireFormat) {
  KeptQueue<AgreedPtr> ready;
  for (const char* name : {"a", "b", "c", "d"}) {
    auto t = std::make_shared<Agreed>(*tensor(name, 10));
    if (name[0] == 'b' || name[0] == 'd') t->wire_format = RODA_WIRE_INT8;
    ready.push_back(t);
  }
  EXPECT_EQ(names(take(&ready, rules(1 << 20, 400))), "ac");
  EXPECT_EQ(names(take(&ready, rules(1 << 20, 400))), "bd");
}

// An allgather's tensors count as much as all ranks give.
TEST(Bucket, AllgathersCountWhatEverybodyGives) {
  KeptQueue<AgreedPtr> ready{tensor("a", 100, RODA_UINT8, RODA_ALLGATHER), tensor("b", 100, RODA_UINT8, RODA_ALLGATHER),
                             tensor("c", 100, RODA_UINT8, RODA_ALLGATHER)};
  EXPECT_EQ(names(take(&ready, rules(500, 0))), "ab");
  EXPECT_EQ(names(take(&ready, rules(500, 0))), "c");
}

TEST(Bucket, GroupsStayApartWhenAskedTo) {
  KeptQueue<AgreedPtr> ready;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    auto t = std::make_shared<Agreed>(*tensor(name, 10));
    if (name[0] == 'b' || name[0] == 'd') t->group = {7, 2};
    ready.push_back(t);
  }
  BucketRules apart = rules(1 << 20, 400);
  apart.groups_apart = true;
  KeptQueue<AgreedPtr> again = ready;
  EXPECT_EQ(names(take(&ready, apart)), "ace");
  EXPECT_EQ(names(take(&ready, apart)), "bd");
  EXPECT_EQ(names(take(&again, rules(1 << 20, 400))), "abcde");
}

AgreedPtr on_device(const std::string& name, std::int64_t elements, int dtype = RODA_FLOAT32) {
  auto t = std::make_shared<Agreed>(*tensor(name, elements, dtype));
  t->devices = {0, 1};
  t->placement = 0;
  return t;
}

std::vector<std::string> all(FillingBuckets* filling) {
  std::vector<std::string> buckets;
  std::vector<AgreedPtr> bucket;
  while (filling->take(&bucket)) buckets.push_back(names(bucket));
  return buckets;
}

using Names = std::vector<std::string>;

// 400 bytes complete a bucket, more than 1000 are never in one.
BucketRules device_rules() {
  BucketRules r = rules(1000, 0);
  r.complete = 400;
  return r;
}

TEST(FillingBuckets, TheFirstTravelsAloneAndOthersInOrderAsTheyFillABucket) {
  FillingBuckets filling;
  filling.add(on_device("a", 10), device_rules());
  EXPECT_EQ(all(&filling), Names{"a"});
  for (const char* name : {"b", "c"}) filling.add(on_device(name, 45), device_rules());
  EXPECT_EQ(all(&filling), Names{}) << "360 bytes";
  EXPECT_EQ(filling.waiting(), 2u);
  filling.add(on_device("d", 10), device_rules());
  EXPECT_EQ(all(&filling), Names{"bcd"}) << "complete with the one that fills it";
  filling.add(on_device("e", 99), device_rules());
  filling.add(on_device("L", 101), device_rules());
  EXPECT_EQ(all(&filling), Names{"L"}) << "a large one is not copied, and does not wait";
  filling.close(0);
  EXPECT_EQ(all(&filling), Names{"e"});
  filling.add(on_device("f", 10), device_rules());
  EXPECT_EQ(all(&filling), Names{"f"}) << "the next step begins as this one";
  EXPECT_EQ(filling.added(), 7u);
}

TEST(FillingBuckets, WhatWouldNotFitCompletesThoseBefore) {
  BucketRules narrow = device_rules();
  narrow.threshold = narrow.complete;
  FillingBuckets filling;
  filling.add(on_device("a", 1), narrow);
  for (const char* name : {"b", "c"}) filling.add(on_device(name, 60), narrow);
  EXPECT_EQ(all(&filling), (Names{"a", "b"}));
}

TEST(FillingBuckets, KindsFillBucketsOfTheirOwn) {
  FillingBuckets filling;
  const AgreedPtr half = on_device("h", 10, RODA_FLOAT16);
  for (const char* name : {"a", "b"}) filling.add(on_device(name, 10), device_rules());
  filling.add(half, device_rules());
  for (const char* name : {"i", "j"}) filling.add(on_device(name, 10, RODA_FLOAT16), device_rules());
  EXPECT_EQ(all(&filling), (Names{"a", "h"}));
  EXPECT_EQ(filling.waiting(kind_of(*half)), 2u);
  EXPECT_TRUE(filling.has_begun(kind_of(*half)));
  filling.close(kind_of(*half));
  EXPECT_EQ(all(&filling), Names{"ij"});
  EXPECT_FALSE(filling.has_begun(kind_of(*half)));
  EXPECT_EQ(filling.waiting(), 1u) << "the others wait on";
}

TEST(FillingBuckets, PlacementsFillBucketsOfTheirOwn) {
  const auto elsewhere = [](const char* name) {
    auto t = std::make_shared<Agreed>(*on_device(name, 10));
    t->devices = {1, 0};
    t->placement = 1;
    return t;
  };
  FillingBuckets filling;
  for (const char* name : {"a", "b"}) filling.add(on_device(name, 10), device_rules());
  for (const char* name : {"i", "j"}) filling.add(elsewhere(name), device_rules());
  filling.add(on_device("c", 10), device_rules());
  filling.close(0);
  EXPECT_EQ(all(&filling), (Names{"a", "i", "bc", "j"}));
}

TEST(FillingBuckets, AGroupIsFirstTogether) {
  FillingBuckets filling;
  for (const char* name : {"a", "b", "c"}) {
    auto t = std::make_shared<Agreed>(*on_device(name, 10));
    t->group = {7, 3};
    filling.add(t, device_rules());
  }
  EXPECT_EQ(all(&filling), Names{});
  filling.settle();
  EXPECT_EQ(all(&filling), Names{"abc"});
  filling.settle();
  filling.add(on_device("d", 10), device_rules());
  filling.settle();
  EXPECT_EQ(all(&filling), Names{});
}

}  // namespace
}  // namespace roda::negotiate
