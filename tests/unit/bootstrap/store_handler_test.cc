#include "core/bootstrap/store_handler.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace roda {
namespace {

using store_wire::Op;
using store_wire::Outcome;

// Clients without connections.
class StoreHandlerTest : public testing::Test {
 protected:
  struct Answered {
    std::uint32_t id;
    Outcome outcome;
    std::string value;
  };

  Status ask(std::uint64_t client, Op op, std::string_view key, std::string_view value = "") {
    return handler_.handle(client, {op, next_id_++, key, value});
  }
  std::vector<Answered> answers_of(std::uint64_t client) { return std::exchange(answers_[client], {}); }

  std::uint32_t next_id_ = 1;
  std::map<std::uint64_t, std::vector<Answered>> answers_;
  StoreHandler handler_{1 << 20, [this](std::uint64_t client, const store_wire::Response& response) {
                          answers_[client].push_back({response.id, response.outcome, std::string(response.value)});
                        }};
};

TEST_F(StoreHandlerTest, WhoeverWaitsForAKeyIsAnsweredWhenItComes) {
  ASSERT_TRUE(ask(1, Op::kGet, "job/a").ok());
  EXPECT_TRUE(answers_of(1).empty());
  ASSERT_TRUE(ask(2, Op::kPut, "job/a", "first").ok());
  const auto answers = answers_of(1);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].id, 1u);
  EXPECT_EQ(answers[0].value, "first");
  ASSERT_TRUE(ask(3, Op::kPutIfAbsent, "job/a", "second").ok());
  ASSERT_TRUE(ask(3, Op::kGet, "job/a").ok());
  EXPECT_EQ(answers_of(3).back().value, "first");
}

TEST_F(StoreHandlerTest, AClientThatGoesFailsTheScopesThatItHasNotLeft) {
  ASSERT_TRUE(ask(1, Op::kEnter, "job", "4").ok());
  ASSERT_TRUE(ask(1, Op::kEnter, "other", "5").ok());
  ASSERT_TRUE(ask(1, Op::kLeave, "other").ok());
  ASSERT_TRUE(ask(2, Op::kGet, "job/a").ok());
  ASSERT_TRUE(ask(3, Op::kGet, "other/a").ok());
  handler_.gone(1);
  const auto answers = answers_of(2);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].outcome, Outcome::kFailed);
  EXPECT_NE(answers[0].value.find("Rank 4 died"), std::string::npos) << answers[0].value;
  EXPECT_TRUE(answers_of(3).empty());
  ASSERT_TRUE(ask(2, Op::kGet, "job/b").ok());  // from now on everybody there is told
  EXPECT_EQ(answers_of(2).front().outcome, Outcome::kFailed);
  handler_.gone(1);  // says nothing more
  EXPECT_TRUE(answers_of(2).empty());
}

TEST_F(StoreHandlerTest, InARetiredScopeNothingIsKept) {
  ASSERT_TRUE(ask(1, Op::kPut, "old/a", "there").ok());
  handler_.retire("old", "over");
  ASSERT_TRUE(ask(1, Op::kPut, "old/b", "late").ok());
  for (const char* key : {"old/a", "old/b"}) {
    ASSERT_TRUE(ask(2, Op::kGet, key).ok());
    EXPECT_EQ(answers_of(2).front().value, "over");
  }
  ASSERT_TRUE(ask(2, Op::kPut, "older", "another").ok());
  ASSERT_TRUE(ask(2, Op::kGet, "older").ok());
  EXPECT_EQ(answers_of(2).front().value, "another");
}

TEST_F(StoreHandlerTest, ARequestWithoutItsNumberIsTheClientsFault) {
  EXPECT_EQ(ask(1, Op::kEnter, "job", "four").code(), RODA_ERR_INVALID);
  EXPECT_EQ(ask(1, Op::kTake, "job/a", "").code(), RODA_ERR_INVALID);
}

}  // namespace
}  // namespace roda
