// Random and damaged texts: the parser always comes to an answer, and what it accepts it prints and reads back the
// same.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "algorithms/select/table.h"

namespace roda::select {
namespace {

void check(const std::string& text) {
  std::string error;
  const auto parsed = Table::parse(text, &error);
  if (!parsed) {
    ASSERT_EQ(error.rfind("rule ", 0), 0u) << text;
    return;
  }
  ASSERT_TRUE(error.empty());
  const auto again = Table::parse(parsed->to_text(), &error);
  ASSERT_TRUE(again) << text << "\nprinted as\n" << parsed->to_text() << error;
  ASSERT_EQ(again->to_text(), parsed->to_text());
}

class Fuzz : public testing::TestWithParam<unsigned> {
 protected:
  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }
  std::mt19937 random_{GetParam()};
};

TEST_P(Fuzz, AnyBytes) {
  for (int i = 0; i < 2000; ++i) {
    std::string text(below(60), ' ');
    for (char& c : text) c = static_cast<char>(below(256));
    check(text);
  }
}

// Words of the grammar in random order: gets deeper than bytes do.
TEST_P(Fuzz, AnyWords) {
  const std::vector<std::string> words = {"allreduce", "barrier", "broadcast", "@", "host", "cuda", ":",   "0",
                                          "64K",       "inf",     "-",         "[", "2",    "8",    "]",   "=",
                                          "shm",       "*",       "/",         ",", "ring", "!",    "\n",  ";",
                                          "direct",    "native",  "signal",    "#", " ",    "9G",   "1.5", "K"};
  for (int i = 0; i < 5000; ++i) {
    std::string text;
    for (std::size_t n = below(16); n > 0; --n) text += words[below(words.size())];
    check(text);
  }
}

TEST_P(Fuzz, DamagedDefaults) {
  const std::string whole = Table::defaults().to_text();
  for (int i = 0; i < 2000; ++i) {
    std::string text = whole;
    for (std::size_t n = below(4) + 1; n > 0; --n) {
      switch (below(3)) {
        case 0:
          text[below(text.size())] = static_cast<char>(below(128));
          break;
        case 1:
          text.erase(below(text.size()), below(8));
          break;
        default:
          text.insert(below(text.size()), whole.substr(below(whole.size()), below(30)));
      }
    }
    check(text);
  }
}

// Rules made by chance from valid parts always parse, and say what was meant.
TEST_P(Fuzz, ValidRules) {
  for (int i = 0; i < 500; ++i) {
    const std::size_t from = below(1u << 20);
    const std::size_t to = from + 1 + below(1u << 20);
    const std::size_t least = 1 + below(100);
    const std::size_t most = least + below(100);
    const std::string text = "allreduce@" + std::string(below(2) == 0 ? "host" : "cuda") + ":" + std::to_string(from) +
                             "-" + std::to_string(to) + "[" + std::to_string(least) + "-" + std::to_string(most) +
                             "]=" + (below(2) == 0 ? "!" : "") + "x/ring,*/native";
    const auto parsed = Table::parse(text, nullptr);
    ASSERT_TRUE(parsed) << text;
    const Table::Rule& rule = parsed->rules()[0];
    ASSERT_EQ(rule.from, from);
    ASSERT_EQ(rule.to, to);
    ASSERT_EQ(rule.min_ranks, static_cast<int>(least));
    ASSERT_EQ(rule.max_ranks, static_cast<int>(most));
    check(text);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Fuzz, testing::Range(1u, 6u));

}  // namespace
}  // namespace roda::select
