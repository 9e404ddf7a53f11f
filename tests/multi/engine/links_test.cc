// Where the links of a job are from. Each test inits; its cache is a folder of its own, which rank 0 alone looks into.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "tests/multi/engine/rank.h"

namespace roda::test {
namespace {

int launched_rank() { return std::atoi(std::getenv("HOROVOD_RANK")); }

Outcome init() {
  roda_error error{};
  error.struct_size = sizeof error;
  const int code = roda_init(nullptr, &error);
  return {code, code == RODA_OK ? "" : error.message};
}

// What the job's predictions go by, as --explain ends.
std::string sources() {
  roda_error error{};
  error.struct_size = sizeof error;
  const std::unique_ptr<char, void (*)(char*)> text(roda_explain(RODA_ALLREDUCE, 1 << 20, 0, 0, &error),
                                                    roda_free_text);
  const std::string words = text != nullptr ? text.get() : error.message;
  const std::size_t from = words.find("links that are ");
  return from == std::string::npos ? words : words.substr(from, words.find(';', from) - from);
}

class JobLinks : public testing::Test {
 protected:
  void SetUp() override { ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1); }
  void TearDown() override {
    roda_shutdown();
    for (const char* name : {"RODA_MEASURE_LINKS", "RODA_LINKS", "XDG_CACHE_HOME"}) ::unsetenv(name);
    std::filesystem::remove_all(folder_);
  }
  std::string file() const { return folder_ + "/roda/links.json"; }
  bool has_file() const { return std::filesystem::exists(file()); }

  const std::string folder_ = testing::TempDir() + "roda-links-" + std::to_string(::getpid());
};

bool says(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

// Two ranks of one host: there is no network between them.
std::string all() { return std::getenv("ON_HOSTS") == nullptr ? "memory" : "network"; }

TEST_F(JobLinks, AreMeasuredOnceAndKept) {
  ASSERT_EQ(init().code, RODA_OK);
  const std::string first = sources();
  EXPECT_EQ(has_file(), launched_rank() == 0);
  roda_shutdown();
  ASSERT_EQ(init().code, RODA_OK);
  const std::string second = sources();
  // A machine that is busy elsewhere may give figures that contradict each other; they are not kept then.
  if (says(first, "assumed")) GTEST_SKIP() << first;
  EXPECT_TRUE(says(first, "measured at init") && says(first, all()) && says(first, "processor")) << first;
  EXPECT_TRUE(says(second, "measured by an earlier job") && !says(second, "at init")) << second;
}

TEST_F(JobLinks, AreMeasuredAnewWhereTheCacheIsMalformed) {
  if (launched_rank() == 0) {
    std::filesystem::create_directories(folder_ + "/roda");
    std::ofstream(file()) << "no links";
  }
  testing::internal::CaptureStderr();
  ASSERT_EQ(init().code, RODA_OK);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(says(said, "links.json is malformed (is no JSON"), launched_rank() == 0) << said;
  EXPECT_FALSE(says(sources(), "earlier job")) << sources();
}

// A network whose messages take so long that no trial ends in time: the next job does not try again.
TEST_F(JobLinks, AreNotMeasuredAgainRightAfterThatFailed) {
  if (std::getenv("LAZY_HOLD_US") == nullptr) GTEST_SKIP() << "measuring need not fail here";
  ASSERT_EQ(init().code, RODA_OK);
  const std::string first = sources();
  EXPECT_TRUE(says(first, "assumed (loopback")) << first;
  EXPECT_EQ(has_file(), launched_rank() == 0);
  roda_shutdown();
  ASSERT_EQ(init().code, RODA_OK);
  EXPECT_TRUE(says(sources(), "assumed, for measuring failed some minutes ago (loopback")) << sources();
  roda_shutdown();
  ::setenv("RODA_MEASURE_LINKS", "always", 1);
  ASSERT_EQ(init().code, RODA_OK);
  EXPECT_FALSE(says(sources(), "some minutes ago")) << sources();
}

TEST_F(JobLinks, AreMeasuredAnewOnDemand) {
  ASSERT_EQ(init().code, RODA_OK);
  roda_shutdown();
  ::setenv("RODA_MEASURE_LINKS", "always", 1);
  ASSERT_EQ(init().code, RODA_OK);
  EXPECT_FALSE(says(sources(), "earlier job")) << sources();
}

TEST_F(JobLinks, AreAssumedWhereMeasuringIsForbidden) {
  ::setenv("RODA_MEASURE_LINKS", "never", 1);
  ASSERT_EQ(init().code, RODA_OK);
  EXPECT_TRUE(says(sources(), "that are assumed")) << sources();
  EXPECT_FALSE(has_file());
}

TEST_F(JobLinks, AreTheFilesWhereThereIsOne) {
  const std::string path = folder_ + ".json";
  std::ofstream(path) << R"({"source": "a file of the test"})";
  ::setenv("RODA_LINKS", path.c_str(), 1);
  ASSERT_EQ(init().code, RODA_OK);
  EXPECT_TRUE(says(sources(), "a file of the test")) << sources();
  EXPECT_FALSE(has_file());
  ::unlink(path.c_str());
}

TEST_F(JobLinks, AskForAWordThatExists) {
  ::setenv("RODA_MEASURE_LINKS", "sometimes", 1);
  const Outcome o = init();
  EXPECT_EQ(o.code, RODA_ERR_INVALID);
  EXPECT_TRUE(says(o.message, "RODA_MEASURE_LINKS=sometimes: give auto, always or never")) << o.message;
}

}  // namespace
}  // namespace roda::test
