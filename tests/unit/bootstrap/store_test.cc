// The parts of the store without a network: the local store, the server's table, the messages, the exchange.
#include "core/bootstrap/store.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "core/bootstrap/gather.h"
#include "core/bootstrap/store_table.h"
#include "core/bootstrap/store_wire.h"

namespace roda {
namespace {

using std::chrono::hours;

Store::Clock::time_point in_an_hour() { return Store::Clock::now() + hours(1); }

TEST(LocalStore, PutAndGet) {
  LocalStore store;
  std::string value;
  bool found = true;
  ASSERT_TRUE(store.get("a/1", &value, &found).ok());
  EXPECT_FALSE(found);
  ASSERT_TRUE(store.put("a/1", "one").ok());
  ASSERT_TRUE(store.put("a/1", std::string_view("u\0no", 4)).ok());
  ASSERT_TRUE(store.put("a/2", "").ok());
  ASSERT_TRUE(store.put("b", "b").ok());
  ASSERT_TRUE(store.get("a/1", &value, &found).ok());
  EXPECT_EQ(value, std::string("u\0no", 4));
  ASSERT_TRUE(store.wait("b", in_an_hour(), &value).ok());
  EXPECT_EQ(value, "b");
}

TEST(LocalStore, PutIfAbsentKeepsTheFirst) {
  LocalStore store;
  std::string value;
  ASSERT_TRUE(store.put_if_absent("k", "first").ok());
  ASSERT_TRUE(store.put_if_absent("k", "second").ok());
  ASSERT_TRUE(store.wait("k", in_an_hour(), &value).ok());
  EXPECT_EQ(value, "first");
}

TEST(LocalStore, WaitsForAnotherThread) {
  LocalStore store;
  std::string value;
  std::thread waiter([&] { EXPECT_TRUE(store.wait("late", in_an_hour(), &value).ok()); });
  ASSERT_TRUE(store.put("late", "here").ok());
  waiter.join();
  EXPECT_EQ(value, "here");
}

TEST(LocalStore, TheDeadlineNamesTheKey) {
  LocalStore store;
  std::string value;
  Status status = store.wait("never", Store::Clock::now(), &value);
  EXPECT_EQ(status.code(), RODA_ERR_TIMEOUT);
  EXPECT_EQ(status.message(), "nobody has put 'never' in time");
}

TEST(LocalStore, SizesAreBounded) {
  LocalStore store;
  EXPECT_EQ(store.put("", "v").code(), RODA_ERR_INVALID);
  EXPECT_EQ(store.put(std::string(Store::kMaxKey + 1, 'k'), "v").code(), RODA_ERR_INVALID);
  EXPECT_EQ(store.put("k", std::string(Store::kMaxValue + 1, 'v')).code(), RODA_ERR_INVALID);
  EXPECT_TRUE(store.put(std::string(Store::kMaxKey, 'k'), std::string(Store::kMaxValue, 'v')).ok());
}

TEST(StoreTable, WaitersAreWokenOnceInOrder) {
  StoreTable table(1 << 20);
  const std::string* value = nullptr;
  ASSERT_TRUE(table.get("k", {7, 1}, &value).ok());
  EXPECT_EQ(value, nullptr);
  ASSERT_TRUE(table.get("k", {8, 2}, &value).ok());
  ASSERT_TRUE(table.get("other", {7, 3}, &value).ok());
  std::vector<StoreTable::Waiter> woken;
  ASSERT_TRUE(table.put("k", "v", &woken).ok());
  EXPECT_EQ(woken, (std::vector<StoreTable::Waiter>{{7, 1}, {8, 2}}));
  woken.clear();
  ASSERT_TRUE(table.put("k", "w", &woken).ok());
  EXPECT_TRUE(woken.empty());
  ASSERT_TRUE(table.get("k", {9, 4}, &value).ok());
  ASSERT_NE(value, nullptr);
  EXPECT_EQ(*value, "w");
  table.forget_waiters(7);
  ASSERT_TRUE(table.put("other", "v", &woken).ok());
  EXPECT_TRUE(woken.empty());
}

TEST(StoreTable, MemoryIsBoundedAndGivenBack) {
  StoreTable table(10'000);
  std::vector<StoreTable::Waiter> woken;
  const std::string* value = nullptr;
  ASSERT_TRUE(table.put("keep", "old", &woken).ok());
  EXPECT_EQ(table.put("keep", std::string(20'000, 'x'), &woken).code(), RODA_ERR_NO_MEMORY);
  ASSERT_TRUE(table.get("keep", {1, 1}, &value).ok());
  EXPECT_EQ(*value, "old");
  Status status;
  int waiters = 0;
  while ((status = table.get("w" + std::to_string(waiters), {1, 1}, &value)).ok()) ASSERT_LT(++waiters, 1000);
  EXPECT_EQ(status.code(), RODA_ERR_NO_MEMORY);
  EXPECT_LE(table.bytes(), 10'000u);
  table.forget_waiters(1);
  const std::size_t before = table.bytes();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(table.put("keep", std::string(5'000, 'x'), &woken).ok());
  ASSERT_TRUE(table.put("keep", "old", &woken).ok());
  EXPECT_EQ(table.bytes(), before);
}

// All that are waiting are woken by the last value, and the gathering ends when each rank has had it.
TEST(StoreTable, AGatheringWakesAllAtOnceAndEnds) {
  StoreTable table(10'000);
  std::vector<StoreTable::Waiter> woken, complete;
  const std::string* text = nullptr;
  EXPECT_EQ(table.first_missing("g", 3), 0);
  ASSERT_TRUE(table.give("g", 2, "c", &woken, &complete).ok());
  ASSERT_TRUE(table.take_all("g", 3, {7, 1}, &text).ok());
  EXPECT_EQ(text, nullptr);
  ASSERT_TRUE(table.give("g", 0, "", &woken, &complete).ok());
  ASSERT_TRUE(table.take_all("g", 3, {8, 1}, &text).ok());
  EXPECT_EQ(table.first_missing("g", 3), 1);
  EXPECT_TRUE(complete.empty());
  ASSERT_TRUE(table.give("g", 1, "bb", &woken, &complete).ok());
  EXPECT_EQ(complete, (std::vector<StoreTable::Waiter>{{7, 1}, {8, 1}}));
  EXPECT_EQ(table.first_missing("g", 3), -1);
  ASSERT_TRUE(table.take_all("g", 3, {9, 1}, &text).ok());
  ASSERT_NE(text, nullptr);
  std::vector<std::string> values;
  ASSERT_TRUE(store_wire::values_of(*text, 3, &values));
  EXPECT_EQ(values, (std::vector<std::string>{"", "bb", "c"}));
  for (int i = 0; i < 2; ++i) table.release("g");
  EXPECT_NE(table.text("g"), nullptr);
  table.release("g");
  EXPECT_EQ(table.text("g"), nullptr);
  EXPECT_EQ(table.bytes(), 0u);
}

TEST(StoreTable, AGatheringIsGoneWhenAllHaveReleasedIt) {
  StoreTable table(10'000);
  std::vector<StoreTable::Waiter> woken, complete;
  const std::string* value = nullptr;
  for (const int rank : {0, 1}) ASSERT_TRUE(table.give("g", rank, "x", &woken, &complete).ok());
  table.release("g", 2);
  ASSERT_TRUE(table.take("g", 1, {7, 1}, &value).ok());
  EXPECT_NE(value, nullptr);
  table.release("g", 2);
  EXPECT_EQ(table.bytes(), 0u);
}

TEST(StoreTable, OneValueOfAGatheringWakesWhoWaitsForIt) {
  StoreTable table(10'000);
  std::vector<StoreTable::Waiter> woken, complete;
  const std::string* value = nullptr;
  ASSERT_TRUE(table.take("g", 1, {7, 1}, &value).ok());
  ASSERT_TRUE(table.take("g", 0, {8, 1}, &value).ok());
  ASSERT_TRUE(table.take("g", 0, {9, 1}, &value).ok());
  EXPECT_EQ(value, nullptr);
  ASSERT_TRUE(table.give("g", 1, "b", &woken, &complete).ok());
  EXPECT_EQ(woken, (std::vector<StoreTable::Waiter>{{7, 1}}));
  ASSERT_TRUE(table.take("g", 1, {7, 2}, &value).ok());
  ASSERT_NE(value, nullptr);
  EXPECT_EQ(*value, "b");
  table.forget_waiters(9);
  EXPECT_EQ(table.take_waiters("g"), (std::vector<StoreTable::Waiter>{{8, 1}}));
}

TEST(StoreWire, MessagesComeOutAsTheyWentIn) {
  using namespace store_wire;
  auto bytes = encode(Request{Op::kPut, 0x01020304, "key", std::string_view("va\0lue", 6)});
  auto request = parse_request(bytes);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->op, Op::kPut);
  EXPECT_EQ(request->id, 0x01020304u);
  EXPECT_EQ(request->key, "key");
  EXPECT_EQ(request->value, std::string_view("va\0lue", 6));
  auto answer = encode(Response{9, Outcome::kError, "full"});
  auto response = parse_response(answer);
  ASSERT_TRUE(response);
  EXPECT_EQ(response->id, 9u);
  EXPECT_EQ(response->outcome, Outcome::kError);
  EXPECT_EQ(response->value, "full");
}

TEST(StoreWire, CutAndForgedMessagesAreRefused) {
  using namespace store_wire;
  auto whole = encode(Request{Op::kGet, 1, "key", ""});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(parse_request(Bytes(whole).first(length))) << length;
  }
  whole.push_back('x');
  EXPECT_FALSE(parse_request(whole));  // a get has no value
  EXPECT_FALSE(parse_request(std::vector<std::uint8_t>{11, 0, 0, 0, 0, 1, 0, 'k'}));
  EXPECT_FALSE(parse_request(std::vector<std::uint8_t>{2, 0, 0, 0, 0, 0, 0}));
  EXPECT_FALSE(parse_response(std::vector<std::uint8_t>{0, 0, 0, 0}));
  EXPECT_FALSE(parse_response(std::vector<std::uint8_t>{0, 0, 0, 0, 3}));
}

TEST(StoreWire, ValuesOfAGatheringAreWholeOrRefused) {
  using namespace store_wire;
  std::vector<std::string> values;
  for (const char* first : {"", "two"}) {  // of another length than the next one, and of the same
    const std::string text = store_wire::text_of({{0, first}, {1, "one"}});
    EXPECT_EQ(whole_length(text), text.size());
    EXPECT_EQ(whole_length(std::string_view(text).substr(0, 7)), 0u);
    ASSERT_TRUE(values_of(text, 2, &values));
    EXPECT_EQ(values, (std::vector<std::string>{first, "one"}));
    EXPECT_FALSE(values_of(text + "x", 2, &values));
    EXPECT_FALSE(values_of(text, 1, &values) || values_of(text, 3, &values));
    for (std::size_t length = 0; length < text.size(); ++length) {
      EXPECT_FALSE(values_of(std::string_view(text).substr(0, length), 2, &values)) << length;
    }
  }
  EXPECT_EQ(store_wire::text_of({{0, ""}, {1, ""}, {2, ""}}).size(), 12u);  // of a barrier, whatever its size
}

TEST(StoreWire, RandomBytesAreParsedOrRefused) {
  std::mt19937 random(5);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::uint8_t> bytes(random() % 40);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random() % (round % 2 == 0 ? 256 : 5));
    auto request = store_wire::parse_request(bytes);
    EXPECT_TRUE(!request || store_wire::encode(*request) == bytes);
    auto response = store_wire::parse_response(bytes);
    EXPECT_TRUE(!response || store_wire::encode(*response) == bytes);
  }
}

TEST(StoreExchange, MembersSeeEachOthersKeys) {
  LocalStore store;
  StoreExchange first(store, "group/1", 0, 2), second(store, "group/1", 1, 2), stranger(store, "group/2", 1, 2);
  roda_exchange a = first.table(), b = second.table(), c = stranger.table();
  roda_error error = make_error();
  char buffer[8];
  std::size_t bytes = sizeof buffer;
  EXPECT_EQ(b.get(b.self, 0, "address", buffer, &bytes, &error), RODA_IN_PROGRESS);
  ASSERT_EQ(a.put(a.self, "address", "1234", 4, &error), RODA_OK);
  ASSERT_EQ(b.get(b.self, 0, "address", buffer, &bytes, &error), RODA_OK);
  EXPECT_EQ(std::string(buffer, bytes), "1234");
  bytes = sizeof buffer;
  EXPECT_EQ(b.get(b.self, 1, "address", buffer, &bytes, &error), RODA_IN_PROGRESS);
  EXPECT_EQ(c.get(c.self, 0, "address", buffer, &bytes, &error), RODA_IN_PROGRESS);
  bytes = 3;
  EXPECT_EQ(b.get(b.self, 0, "address", buffer, &bytes, &error), RODA_ERR_INVALID);
  EXPECT_STREQ(error.message, "the value of 'group/1/address' of member 0 has 4 bytes; there is room for 3");
}

TEST(StoreExchange, AllValuesComeAtOnce) {
  LocalStore store;
  StoreExchange first(store, "group/1", 0, 2), second(store, "group/1", 1, 2);
  roda_exchange a = first.table(), b = second.table();
  ASSERT_EQ(a.reserved, RODA_EXCHANGE_ALL);
  roda_error error = make_error();
  char buffer[9] = {};
  std::size_t bytes = 8, of_number = sizeof(std::int32_t);
  std::int32_t missing = 0;
  ASSERT_EQ(a.put(a.self, "card", "zero", 4, &error), RODA_OK);
  EXPECT_EQ(a.get(a.self, RODA_OF_ALL, "card", buffer, &bytes, &error), RODA_IN_PROGRESS);
  ASSERT_EQ(a.get(a.self, RODA_OF_MISSING, "card", &missing, &of_number, &error), RODA_OK);
  EXPECT_EQ(missing, 1);
  ASSERT_EQ(b.put(b.self, "card", "one!", 4, &error), RODA_OK);
  ASSERT_EQ(a.get(a.self, RODA_OF_ALL, "card", buffer, &bytes, &error), RODA_OK);
  EXPECT_STREQ(buffer, "zeroone!");
  ASSERT_EQ(a.get(a.self, RODA_OF_MISSING, "card", &missing, &of_number, &error), RODA_OK);
  EXPECT_EQ(missing, -1);
  bytes = 6;
  EXPECT_EQ(b.get(b.self, RODA_OF_ALL, "card", buffer, &bytes, &error), RODA_ERR_PRECONDITION);
  EXPECT_STREQ(
      error.message,
      "member 0 of the group published 4 bytes under 'group/1/card' where 3 were expected: its plugin differs");
}

}  // namespace
}  // namespace roda
