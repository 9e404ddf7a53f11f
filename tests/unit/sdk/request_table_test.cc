#include <gtest/gtest.h>
#include <roda/sdk/request_table.hpp>

#include <array>
#include <vector>

namespace roda::sdk {
namespace {

struct Request : PendingRequest {
  int own = 5;
};
using Table = RequestTable<Request>;

TEST(RequestTable, AUsedRequestIsNewButForItsNumber) {
  Table table;
  Request& first = table.take(nullptr, 0, 1);
  first.own = 6;
  const std::uint64_t id = first.id();
  EXPECT_EQ(table.find_id(id), &first);
  table.finish(first);
  EXPECT_EQ(table.collect(first), RODA_OK);
  Request& second = table.take(nullptr, 0, 2);
  EXPECT_EQ(&second, &first);
  EXPECT_EQ(second.own, 5);
  EXPECT_NE(second.id(), id);
  EXPECT_EQ(table.find_id(id), nullptr);
  EXPECT_EQ(table.find(second.slot), &second);
}

TEST(RequestTable, OnlyPendingOnesAreFoundAndTouchMemory) {
  Table table;
  std::array<char, 100> data{};
  Request& request = table.take(data.data(), data.size());
  EXPECT_TRUE(table.touches(data.data() + 99, 1));
  EXPECT_FALSE(table.touches(data.data() + 100, 1));
  table.finish(request);
  EXPECT_FALSE(table.touches(data.data(), 1));
  EXPECT_EQ(table.find(request.slot), nullptr);
  EXPECT_EQ(table.find(17), nullptr);
  EXPECT_EQ(table.pending(), 0u);
}

TEST(RequestTable, AnErrorIsThrownOnceWhenItIsCollected) {
  Table table;
  Request& request = table.take(nullptr, 0);
  table.finish(request, {RODA_ERR_PEER, "gone", 3});
  try {
    table.collect(request);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), RODA_ERR_PEER);
    EXPECT_EQ(failure.rank(), 3);
    EXPECT_STREQ(failure.what(), "gone");
  }
  EXPECT_EQ(&table.take(nullptr, 0), &request);  // it was free
}

TEST(RequestTable, WhatEndedAtOnceIsNotHandedOut) {
  Table table;
  Request* handle = nullptr;
  Request& ended = table.take(nullptr, 0);
  table.finish(ended);
  EXPECT_EQ(table.hand_out(ended, &handle), RODA_OK);
  EXPECT_EQ(handle, nullptr);
  Request& pending = table.take(nullptr, 0);
  EXPECT_EQ(table.hand_out(pending, &handle), RODA_OK);
  EXPECT_EQ(handle, &pending);
}

TEST(RequestTable, AnInternalOneIsFreeWhenItEnds) {
  Table table;
  Request& request = table.take(nullptr, 0);
  request.is_internal = true;
  table.finish(request);
  EXPECT_EQ(table.pending(), 0u);
  EXPECT_EQ(&table.take(nullptr, 0), &request);
}

TEST(RequestTable, AllPendingOnesCanBeEnded) {
  Table table;
  std::vector<Request*> requests;
  for (int i = 0; i < 5; ++i) requests.push_back(&table.take(nullptr, 0));
  table.finish(*requests[2]);
  int ended = 0;
  table.for_each_pending([&](Request& request) {
    table.finish(request, {RODA_ERR_ABORTED, "over"});
    ++ended;
  });
  EXPECT_EQ(ended, 4);
  EXPECT_EQ(table.pending(), 0u);
  EXPECT_EQ(requests[2]->code, RODA_OK);
  EXPECT_EQ(requests[4]->code, RODA_ERR_ABORTED);
}

}  // namespace
}  // namespace roda::sdk
