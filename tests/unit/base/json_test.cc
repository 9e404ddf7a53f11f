#include "plugins/base/format.h"

#include <gtest/gtest.h>

namespace roda {
namespace {

TEST(Json, QuotesWhatJsonDemands) {
  EXPECT_EQ(json_quote(""), R"("")");
  EXPECT_EQ(json_quote("a \"b\" \\ c"), R"("a \"b\" \\ c")");
  EXPECT_EQ(json_quote("line\nnext\ttab\r"), R"("line\nnext\ttab\r")");
  EXPECT_EQ(json_quote(std::string("\x01\0", 2)), R"("\u0001\u0000")");
  EXPECT_EQ(json_quote("größe"), "\"größe\"");
}

}  // namespace
}  // namespace roda
