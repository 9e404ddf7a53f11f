#include <gtest/gtest.h>
#include <roda/sdk/matcher.hpp>

#include <string>

namespace roda::sdk {
namespace {

struct Receive {
  std::uint64_t tag;
  int number;
};
struct Message {
  std::uint64_t tag = 0;
  std::string text;
};
using Box = Matcher<Receive, Message>;

TEST(Matcher, ReceivesOfATagAreClaimedInTheirOrder) {
  Box box;
  Receive first{7, 1}, other{8, 2}, second{7, 3};
  for (Receive* receive : {&first, &other, &second}) box.await(receive);
  EXPECT_EQ(box.claim(9), nullptr);
  EXPECT_EQ(box.claim(7), &first);
  EXPECT_EQ(box.claim(7), &second);
  EXPECT_EQ(box.claim(7), nullptr);
  EXPECT_EQ(box.awaited().size(), 1u);
}

TEST(Matcher, WhatDoesNotFitIsPassedOver) {
  Box box;
  Receive small{7, 1}, large{7, 100};
  box.await(&small);
  box.await(&large);
  EXPECT_EQ(box.claim(7, [](const Receive& r) { return r.number > 10; }), &large);
  EXPECT_EQ(box.claim(7), &small);
}

TEST(Matcher, AWithdrawnReceiveIsNotClaimed) {
  Box box;
  Receive receive{7, 1};
  box.await(&receive);
  EXPECT_TRUE(box.withdraw(&receive));
  EXPECT_FALSE(box.withdraw(&receive));
  EXPECT_EQ(box.claim(7), nullptr);
}

TEST(Matcher, EarlyMessagesAreFoundInTheirOrderAndStayWhereTheyAre) {
  Box box;
  Message* first = &box.keep(7);
  first->text = "a";
  box.keep(8).text = "b";
  box.keep(7).text = "c";
  EXPECT_EQ(box.find(7), first);
  EXPECT_EQ(box.find(7, [](const Message& m) { return m.text == "c"; })->text, "c");
  box.drop(first);
  EXPECT_EQ(box.find(7)->text, "c");
  EXPECT_EQ(box.find(9), nullptr);
  EXPECT_EQ(box.early().size(), 2u);
}

TEST(Matcher, APostedReceiveMeetsTheOldestOfItsTagOrIsAwaited) {
  Box box;
  Receive first{7}, second{7};
  box.keep(8);
  EXPECT_FALSE(box.post(&first, [](Message&) { FAIL(); }));
  EXPECT_EQ(box.claim(7), &first);
  Message* const oldest = &box.keep(7);
  Message* const next = &box.keep(7);
  EXPECT_TRUE(box.post(&second, [&](Message& met) { EXPECT_EQ(&met, oldest); }));
  EXPECT_EQ(box.find(7), next);
  EXPECT_TRUE(box.awaited().empty());
}

TEST(Matcher, AUsedPlaceIsUsedAgainAsNew) {
  Box box;
  Message* first = &box.keep(7);
  first->text = "old";
  box.drop(first);
  Message* second = &box.keep(9);
  EXPECT_EQ(second, first);
  EXPECT_EQ(second->tag, 9u);
  EXPECT_EQ(second->text, "");
}

TEST(Matcher, ForgettingWhatIsAwaitedKeepsWhatCame) {
  Box box;
  Receive receive{7, 1};
  box.await(&receive);
  box.keep(8);
  box.forget_awaited();
  EXPECT_EQ(box.claim(7), nullptr);
  EXPECT_NE(box.find(8), nullptr);
}

}  // namespace
}  // namespace roda::sdk
