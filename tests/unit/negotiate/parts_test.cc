#include "core/wire/record.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/unit/negotiate/simulated_job.h"

namespace roda::wire {
namespace {

struct Whole {
  Item kind;
  std::int32_t set;
  std::vector<std::byte> payload;
  bool operator==(const Whole&) const = default;
};

std::vector<Whole> items_of(const std::vector<std::vector<std::byte>>& records, std::int32_t rank) {
  std::vector<Whole> items;
  Parts parts;
  std::vector<std::byte> bytes;
  for (const auto& record : records) {
    EXPECT_LE(record.size(), kMostRecordBytes);
    RecordReader reader(record);
    EXPECT_EQ(reader.header().rank, rank);
    EXPECT_EQ(reader.header().applied, 77u);
    for (ItemView item; reader.next(&item);) {
      bool is_whole = item.kind != Item::kPart;
      const Status taken = is_whole ? Status() : parts.take(item, rank, &bytes, &item, &is_whole);
      EXPECT_TRUE(taken.ok()) << taken.message();
      if (is_whole) items.push_back({item.kind, item.set, {item.payload.begin(), item.payload.end()}});
    }
    EXPECT_TRUE(reader.status().ok()) << reader.status().message();
  }
  return items;
}

TEST(Parts, TheSameItemsComeOutInOrder) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    RecordWriter writer;
    writer.begin(4, 77);
    std::vector<Whole> expected;
    for (int i = 0; i < 8; ++i) {
      // Around a record's length, and far from it.
      const std::size_t bytes =
          random() % 3 == 0 ? random() % 300'000 : random() % 3 * (kMostRecordBytes / 2 - 40) + random() % 60;
      Whole whole{random() % 2 == 0 ? Item::kRequest : Item::kAddSet, static_cast<std::int32_t>(i), {}};
      for (std::size_t b = 0; b < bytes; ++b) whole.payload.push_back(static_cast<std::byte>(random()));
      writer.item(whole.kind, whole.set, whole.payload);
      expected.push_back(std::move(whole));
    }
    ASSERT_EQ(items_of(split(writer.end()), 4), expected) << round;
  }
}

// A position of everybody's in a job of many ranks that are nobody's neighbours, and of a very large cache.
TEST(Parts, BitsOfManyRangesAndManyWordsAreItemsOfARecordEach) {
  std::vector<RankRange> odd;
  for (std::int32_t rank = 1; rank < 20'000; rank += 2) odd.push_back({rank, rank});
  const std::vector<std::uint64_t> words(3000, 5);
  RecordWriter writer;
  writer.begin(4, 77);
  writer.bits(2, 7, words, odd);
  writer.bits(2, 7, words);
  std::map<int, std::int32_t> heard;  // ranges by bit
  int by_speaker = 0;
  const auto records = split(writer.end());
  for (const auto& record : records) {
    ASSERT_LE(record.size(), kMostRecordBytes);
    RecordReader reader(record);
    for (ItemView item; reader.next(&item);) {
      Bits bits;
      ASSERT_TRUE(read_bits(item, &bits).ok());
      by_speaker += bits.ranks.empty() ? static_cast<int>(bits.words.size()) : 0;
      bits.each([&](int bit) { heard[bit] += static_cast<std::int32_t>(bits.ranks.size()); });
    }
  }
  EXPECT_EQ(heard.size(), 2 * words.size());
  for (const auto& [bit, ranges] : heard) ASSERT_EQ(ranges, static_cast<std::int32_t>(odd.size())) << bit;
  EXPECT_EQ(heard.begin()->first, 7 * 64);
  EXPECT_EQ(by_speaker, static_cast<int>(words.size()));
}

// A part: the whole item's kind and length, and some of its bytes.
std::vector<std::byte> part_of(Item kind, std::uint32_t total, std::size_t bytes) {
  std::vector<std::byte> payload(8 + bytes);
  const auto number = static_cast<std::uint32_t>(kind);
  std::memcpy(payload.data(), &number, sizeof number);
  std::memcpy(payload.data() + 4, &total, sizeof total);
  return payload;
}

TEST(Parts, WhatDoesNotBelongTogetherIsRefused) {
  const auto first = part_of(Item::kRequest, 1000, 400);
  const std::vector<std::vector<std::byte>> wrong = {
      part_of(Item::kRequest, 1000, 601),  // more than the whole
      part_of(Item::kAddSet, 1000, 400),  part_of(Item::kRequest, 999, 400),
      part_of(Item::kRequest, 1000, 0),   std::vector<std::byte>(5),
  };
  for (const auto& payload : wrong) {
    Parts parts;
    std::vector<std::byte> bytes;
    ItemView item;
    bool is_whole = true;
    ASSERT_TRUE(parts.take({Item::kPart, 0, first}, 3, &bytes, &item, &is_whole).ok());
    EXPECT_FALSE(is_whole);
    EXPECT_FALSE(parts.take({Item::kPart, 0, payload}, 3, &bytes, &item, &is_whole).ok()) << payload.size();
    EXPECT_FALSE(is_whole);
  }
  // What is stated is not believed: nobody takes memory for it.
  Parts parts;
  std::vector<std::byte> bytes;
  ItemView item;
  bool is_whole = true;
  EXPECT_FALSE(parts.take({Item::kPart, 0, part_of(Item::kRequest, UINT32_MAX, 8)}, 3, &bytes, &item, &is_whole).ok());
}

// Through a negotiator, among other ranks' records.
TEST(Parts, ARequestInPartsIsNegotiated) {
  negotiate::Settings settings = negotiate::settings_for(2);
  negotiate::Negotiator negotiator(settings, 0);
  negotiate::Diary diary;
  std::vector<std::vector<std::byte>> records[2];
  for (int rank : {0, 1}) {
    RecordWriter writer;
    writer.begin(rank, 0);
    writer.request(negotiate::make_request(rank, std::string(65'000, 'n')));
    records[rank] = split(writer.end());
  }
  ASSERT_EQ(records[0].size(), 2u);
  for (std::size_t i = 0; i < records[0].size(); ++i) {
    EXPECT_TRUE(diary.launches.empty());
    for (const auto& of_rank : records) ASSERT_TRUE(negotiator.apply(of_rank[i], &diary).ok());
  }
  ASSERT_EQ(diary.launches.size(), 1u);
  EXPECT_EQ(diary.launches[0].tensors[0]->name.size(), 65'000u);
}

}  // namespace
}  // namespace roda::wire
