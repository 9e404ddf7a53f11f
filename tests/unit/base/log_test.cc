#include "plugins/base/log.h"

#include <gtest/gtest.h>
#include <regex.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace roda::logging {
namespace {

// POSIX extended syntax, the whole text.
bool matches(const std::string& text, const std::string& pattern) {
  regex_t compiled;
  if (regcomp(&compiled, ("^" + pattern + "$").c_str(), REG_EXTENDED | REG_NOSUB) != 0) return false;
  bool found = regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  regfree(&compiled);
  return found;
}

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    verbosity() = {.level = Level::trace};
    set_rank(-1);
  }
};

TEST_F(LogTest, LineHasTimeLevelPlaceAndRank) {
  set_rank(3);
  testing::internal::CaptureStdout();
  RODA_LOG(info, "joined {} of {}", 3, "eight");
  std::string line = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(matches(line,
                      "\\[[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}: I log_test\\.cc:[0-9]+\\] "
                      "\\[3\\]: joined 3 of eight\n"))
      << line;
}

TEST_F(LogTest, TimeCanBeHiddenAndNoRankLeavesTheBracketOut) {
  verbosity().hides_time = true;
  testing::internal::CaptureStderr();
  RODA_LOG(warning, "careful");
  write_text(Level::error, "gloo", 0, "from a plugin with {} braces");
  std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(matches(lines, "\\[W log_test\\.cc:[0-9]+\\] careful\n\\[E gloo\\] from a plugin with \\{\\} braces\n"))
      << lines;
}

TEST_F(LogTest, LevelsUpToInfoGoToStdoutOthersToStderr) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  RODA_LOG(trace, "a");
  RODA_LOG(debug, "b");
  RODA_LOG(info, "c");
  RODA_LOG(warning, "d");
  RODA_LOG(error, "e");
  std::string out = testing::internal::GetCapturedStdout();
  std::string err = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 3);
  EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 2);
}

TEST_F(LogTest, ArgumentsAreNotEvaluatedWhenOff) {
  verbosity().level = Level::error;
  int evaluated = 0;
  RODA_LOG(warning, "{}", ++evaluated);
  EXPECT_EQ(evaluated, 0);
}

TEST_F(LogTest, ThreadsDoNotMixLines) {
  verbosity().hides_time = true;
  testing::internal::CaptureStdout();
  std::vector<std::thread> threads;
  for (char letter : {'a', 'b', 'c', 'd'}) {
    threads.emplace_back([letter] {
      for (int i = 0; i < 200; ++i) write_text(Level::info, "t", 0, std::string(60, letter));
    });
  }
  for (auto& thread : threads) thread.join();
  std::string out = testing::internal::GetCapturedStdout();
  EXPECT_EQ(out.size(), 800u * (60 + 7));
  for (std::size_t at = 0; at + 67 <= out.size(); at += 67) {
    ASSERT_EQ(out.substr(at, 6), "[I t] ");
    ASSERT_EQ(out.substr(at + 6, 60), std::string(60, out[at + 6]));
  }
}

TEST(LogDeathTest, FatalWritesAndAborts) { EXPECT_DEATH(RODA_LOG(fatal, "cannot go on: {}", 7), "cannot go on: 7"); }

TEST(LogDeathTest, EnvironmentIsReadAtTheFirstMessage) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("HOROVOD_LOG_LEVEL", "Error", 1);
        setenv("HOROVOD_LOG_HIDE_TIME", "1", 1);
        RODA_LOG(warning, "hidden");
        RODA_LOG(error, "shown");
        std::exit(0);
      },
      testing::ExitedWithCode(0), "^\\[E log_test.cc:[0-9]+\\] shown\n$");
}

TEST(LogDeathTest, AnUnknownLevelIsWarning) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("HOROVOD_LOG_LEVEL", "verbose", 1);
  EXPECT_EXIT(std::exit(verbosity().level == Level::warning ? 7 : 1), testing::ExitedWithCode(7), "");
  unsetenv("HOROVOD_LOG_LEVEL");
}

}  // namespace
}  // namespace roda::logging
