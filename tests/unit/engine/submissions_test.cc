// What the program has asked for, from submission to end, without an engine.
#include "core/submit/submissions.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

namespace roda::engine {
namespace {

class SubmissionsTest : public ::testing::Test {
 protected:
  HandleState* make(const std::vector<std::string>& names, std::int32_t set = 0) {
    std::uint64_t handle = 0;
    HandleState* state = handles_.create(names.size(), &handle);
    for (std::size_t i = 0; i < names.size(); ++i) {
      state->operations[i].request.name = names[i];
      state->operations[i].request.set = set;
    }
    return state;
  }

  HandleTable handles_;
  Submissions submissions_;
};

TEST_F(SubmissionsTest, AnOperationIsTakenOnceAndFoundUntilItEnds) {
  HandleState* handle = make({"a"});
  ASSERT_TRUE(submissions_.add(handle, 3).ok());
  EXPECT_TRUE(submissions_.has_news());
  Submissions::News news;
  submissions_.take(&news);
  ASSERT_EQ(news.operations.size(), 1u);
  EXPECT_EQ(news.operations[0]->request.rank, 3);
  EXPECT_FALSE(submissions_.has_news());
  submissions_.take(&news);
  EXPECT_TRUE(news.operations.empty());
  EXPECT_EQ(submissions_.find(0, "a"), &handle->operations[0]);
  submissions_.end({&handle->operations[0], nullptr}, Status());
  EXPECT_TRUE(handle->done());
  EXPECT_EQ(submissions_.find(0, "a"), nullptr);
}

TEST_F(SubmissionsTest, AGroupEntersAsAWholeOrNotAtAll) {
  ASSERT_TRUE(submissions_.add(make({"b"}), 0).ok());
  const Status refused = submissions_.add(make({"a", "b"}), 0);
  EXPECT_EQ(refused.code(), RODA_ERR_INVALID);
  EXPECT_NE(refused.message().find("'b'"), std::string::npos);
  EXPECT_EQ(submissions_.find(0, "a"), nullptr);
  EXPECT_TRUE(submissions_.add(make({"a"}), 0).ok()) << "the name is free";
  EXPECT_TRUE(submissions_.add(make({"b"}, 1), 0).ok()) << "another process set has names of its own";
}

TEST_F(SubmissionsTest, WhatComesInTurnIsTakenOnceItsNameIsFree) {
  const auto in_turn = [this](const std::vector<std::string>& names) {
    HandleState* handle = make(names);
    for (Operation& op : handle->operations) op.in_turn = true;
    EXPECT_TRUE(submissions_.add(handle, 0).ok());
    return handle;
  };
  HandleState* first = in_turn({"a"});
  HandleState* second = in_turn({"a", "b"});
  HandleState* third = in_turn({"a"});
  EXPECT_EQ(submissions_.add(make({"a"}), 0).code(), RODA_ERR_INVALID) << "it asked for no turn";
  Submissions::News news;
  const auto is_taken = [&](std::vector<Operation*> expected) {
    submissions_.take(&news);
    return news.operations == expected;
  };
  EXPECT_TRUE(is_taken({&first->operations[0], &second->operations[1]}));
  submissions_.end({&second->operations[1]}, Status());
  EXPECT_FALSE(submissions_.has_news());
  submissions_.end({&first->operations[0]}, Status());
  EXPECT_TRUE(submissions_.has_news());
  EXPECT_TRUE(is_taken({&second->operations[0]}));
  EXPECT_EQ(submissions_.find(0, "a"), &second->operations[0]);
  second->operations[0].launched = true;
  EXPECT_EQ(submissions_.close(Status::unknown("the end")), std::vector<Operation*>{&third->operations[0]});
  submissions_.end({&third->operations[0]}, Status::unknown("the end"));
  EXPECT_EQ(submissions_.find(0, "a"), &second->operations[0]) << "it never had the name";
  submissions_.end({&second->operations[0]}, Status());
  EXPECT_TRUE(second->done() && third->done());
}

TEST_F(SubmissionsTest, AGroupThatHasANameTwiceIsRefusedInTurnToo) {
  HandleState* group = make({"a", "b", "b"});
  for (Operation& op : group->operations) op.in_turn = true;
  EXPECT_EQ(submissions_.add(group, 0).code(), RODA_ERR_INVALID);
  EXPECT_EQ(submissions_.find(0, "a"), nullptr);
  Submissions::News news;
  submissions_.take(&news);
  EXPECT_TRUE(news.operations.empty());
}

TEST_F(SubmissionsTest, AHandleIsMadeAgainWithoutItsPast) {
  std::uint64_t number = 0;
  for (int round = 0; round < 3; ++round) {
    HandleState* handle = handles_.create(1, &number);
    Operation& op = handle->operations[0];
    EXPECT_EQ(op.request.name + std::to_string(op.request.shape.size() + op.result_shape.size()), "0");
    EXPECT_FALSE(op.launched);
    op.request.name = "a name that is too long for a string without memory of its own";
    op.request.shape = {2, 3};
    op.result_shape = {1};
    op.launched = true;
    ASSERT_TRUE(submissions_.add(handle, 0).ok());
    EXPECT_EQ(submissions_.add(make({op.request.name}), 0).code(), RODA_ERR_INVALID) << "it is in flight";
    submissions_.end({&op}, Status());
    EXPECT_EQ(submissions_.find(0, op.request.name), nullptr);
    handles_.release(number);
  }
}

TEST_F(SubmissionsTest, ThreadsThatTakeAndGiveBackHandlesNeverShareOne) {
  constexpr int kThreads = 4, kRounds = 2000;
  std::vector<std::vector<std::uint64_t>> given(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        std::uint64_t handle = 0;
        HandleState* state = handles_.create(1 + static_cast<std::size_t>(round % 2), &handle);
        state->operations.back().value = t;
        EXPECT_EQ(handles_.find(handle), state);
        EXPECT_EQ(state->operations.back().value, t);
        handles_.release(handle);
        handles_.release(handle);
        EXPECT_EQ(handles_.find(handle), nullptr);
        given[static_cast<std::size_t>(t)].push_back(handle);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::uint64_t> all;
  for (const auto& of_thread : given) all.insert(of_thread.begin(), of_thread.end());
  EXPECT_EQ(all.size(), std::size_t{kThreads} * kRounds);
}

// A name's place among others does not depend on how many there are.
TEST_F(SubmissionsTest, ThousandsOfNamesAreFoundEachByItself) {
  std::vector<std::string> names;
  for (int i = 0; i < 5000; ++i) names.push_back("tensor." + std::to_string(i));
  HandleState* handle = make(names);
  ASSERT_TRUE(submissions_.add(handle, 0).ok());
  Submissions::News news;
  submissions_.take(&news);
  ASSERT_EQ(news.operations.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    ASSERT_EQ(news.operations[i], &handle->operations[i]) << "in the order of submission";
    ASSERT_EQ(submissions_.find(0, names[i]), &handle->operations[i]);
    if (i % 3 == 0) submissions_.end({&handle->operations[i]}, Status());
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    ASSERT_EQ(submissions_.find(0, names[i]), i % 3 == 0 ? nullptr : &handle->operations[i]);
  }
}

TEST_F(SubmissionsTest, AHandleKeepsItsFirstError) {
  HandleState* handle = make({"a", "b"});
  ASSERT_TRUE(submissions_.add(handle, 0).ok());
  submissions_.end({&handle->operations[1]}, Status::unknown("first"));
  EXPECT_FALSE(handle->done());
  submissions_.end({&handle->operations[0]}, Status::unknown("second"));
  EXPECT_TRUE(handle->done());
  EXPECT_EQ(handle->first_error.message(), "first");
}

TEST_F(SubmissionsTest, AfterTheEndNothingIsTakenOnAndTheFirstReasonStays) {
  HandleState* launched = make({"launched"});
  HandleState* waiting = make({"waiting"});
  ASSERT_TRUE(submissions_.add(launched, 0).ok());
  ASSERT_TRUE(submissions_.add(waiting, 0).ok());
  launched->operations[0].launched = true;
  EXPECT_EQ(submissions_.close(Status::unknown("first")), std::vector<Operation*>{&waiting->operations[0]});
  EXPECT_EQ(submissions_.close(Status::unknown("second")).size(), 1u);
  EXPECT_EQ(submissions_.add(make({"late"}), 0).message(), "first");
  SetChange change{{0, 1}};
  EXPECT_FALSE(submissions_.add_change(&change).ok());
  submissions_.end_all(Status::unknown("all"));
  EXPECT_TRUE(launched->done() && waiting->done());
}

TEST_F(SubmissionsTest, ASetThatIsAddedIsKnownToWhoWaitsForIt) {
  SetChange change{{0, 2}};
  ASSERT_TRUE(submissions_.add_change(&change).ok());
  Submissions::News news;
  submissions_.take(&news);
  EXPECT_EQ(news.sets_to_add, (std::vector<std::vector<std::int32_t>>{{0, 2}}));
  EXPECT_FALSE(submissions_.is_over(change));
  submissions_.set_opened(4, {0, 2});
  EXPECT_TRUE(submissions_.is_over(change));
  EXPECT_TRUE(submissions_.end_change(&change).ok());
  EXPECT_EQ(change.id, 4);
  int size = 0, position = 0;
  ASSERT_TRUE(submissions_.find_member(4, 2, &size, &position));
  EXPECT_EQ(size, 2);
  EXPECT_EQ(position, 1);
  ASSERT_TRUE(submissions_.find_member(4, 1, &size, &position));
  EXPECT_EQ(position, -1);
  EXPECT_FALSE(submissions_.find_member(5, 1, &size, &position));
}

// So that a rank whose wish never reaches the others, since the leader of its host is stopped, calls the roll.
TEST_F(SubmissionsTest, AChangeOfProcessSetsIsAWait) {
  EXPECT_EQ(submissions_.waits_since(), CoarseClock::time_point::max());
  SetChange change{{0, 2}};
  ASSERT_TRUE(submissions_.add_change(&change).ok());
  EXPECT_LE(submissions_.waits_since(), CoarseClock::now());
  submissions_.set_opened(1, {0, 2});
  EXPECT_EQ(submissions_.waits_since(), CoarseClock::time_point::max());
  EXPECT_TRUE(submissions_.end_change(&change).ok());
}

TEST_F(SubmissionsTest, ASetThatSomebodyRemovesIsLeavingUntilItHasGone) {
  submissions_.set_opened(4, {0, 2});
  HandleState* pending = make({"a"}, 4);
  ASSERT_TRUE(submissions_.add(pending, 0).ok());
  SetChange change{{}, 4};
  ASSERT_TRUE(submissions_.add_change(&change).ok());
  bool is_leaving = false;
  EXPECT_TRUE(submissions_.has_set({0, 2}, &is_leaving));
  EXPECT_TRUE(is_leaving);
  EXPECT_EQ(submissions_.set_closed(4), std::vector<Operation*>{&pending->operations[0]});
  EXPECT_TRUE(submissions_.end_change(&change).ok());
  EXPECT_FALSE(submissions_.has_set({0, 2}, &is_leaving));
  Submissions::News news;
  submissions_.take(&news);
  EXPECT_TRUE(news.operations.empty()) << "it ended with its set";
  EXPECT_EQ(news.sets_to_remove, std::vector<std::int32_t>{4});
}

// Another record of it would be about a set that is there, or gone, and would never end.
TEST_F(SubmissionsTest, ThreadsThatAskForTheSameChangeGetItOnce) {
  SetChange first{{0, 2}};
  SetChange second{{0, 2}};
  ASSERT_TRUE(submissions_.add_change(&first).ok());
  ASSERT_TRUE(submissions_.add_change(&second).ok());
  submissions_.set_opened(4, {0, 2});
  EXPECT_EQ(second.id, 4);
  EXPECT_TRUE(submissions_.end_change(&first).ok() && submissions_.end_change(&second).ok());
  SetChange late{{0, 2}};
  EXPECT_EQ(submissions_.add_change(&late).code(), RODA_ERR_INVALID) << "it is there";

  SetChange removal{{}, 4};
  SetChange same{{}, 4};
  ASSERT_TRUE(submissions_.add_change(&removal).ok());
  ASSERT_TRUE(submissions_.add_change(&same).ok());
  static_cast<void>(submissions_.set_closed(4));
  EXPECT_TRUE(submissions_.is_over(removal) && submissions_.is_over(same));
  EXPECT_TRUE(submissions_.end_change(&removal).ok() && submissions_.end_change(&same).ok());
  EXPECT_EQ(submissions_.add_change(&removal).code(), RODA_ERR_INVALID) << "it is gone";

  Submissions::News news;
  submissions_.take(&news);
  EXPECT_EQ(news.sets_to_add.size(), 1u);
  EXPECT_EQ(news.sets_to_remove.size(), 1u);
}

// The set may come again under its id before the thread that removed it has looked.
TEST_F(SubmissionsTest, ARemovalIsOverAlthoughTheSetIsBack) {
  submissions_.set_opened(4, {0, 2});
  SetChange change{{}, 4};
  ASSERT_TRUE(submissions_.add_change(&change).ok());
  static_cast<void>(submissions_.set_closed(4));
  submissions_.set_opened(4, {0, 2});
  EXPECT_TRUE(submissions_.is_over(change));
  bool is_leaving = true;
  EXPECT_TRUE(submissions_.has_set({0, 2}, &is_leaving));
  EXPECT_FALSE(is_leaving);
}

}  // namespace
}  // namespace roda::engine
