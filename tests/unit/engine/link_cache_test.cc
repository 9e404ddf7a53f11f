// The file of measured links: what it gives back, and what it does not believe.
#include "core/engine/link_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace roda::engine {
namespace {

class Cache : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/deep/links.json"; }
  void write(const std::string& text) const {
    std::filesystem::create_directories(folder_ + "/deep");
    std::ofstream(path()) << text;
  }
  // What loading such a file says, and that nothing of it is found.
  std::string complaint(const std::string& text) const {
    write(text);
    LinkCache cache(path());
    testing::internal::CaptureStderr();
    cache.load();
    EXPECT_FALSE(cache.find("a")) << text;
    return testing::internal::GetCapturedStderr();
  }

 private:
  std::string folder_ = testing::TempDir() + "roda-link-cache";
};

TEST_F(Cache, GivesBackWhatWasKept) {
  LinkCache cache(path());
  cache.load();
  EXPECT_FALSE(cache.find("a"));
  cache.add("a", {{"GBps", 1.0 / 3}});
  cache.add("b", {{"GBps", 2}});
  cache.save();
  LinkCache again(path());
  again.load();
  EXPECT_EQ(again.find("a"), (Figures{{"GBps", 1.0 / 3}}));
  again.add("a", {{"GBps", 5}});
  EXPECT_EQ(again.find("a"), (Figures{{"GBps", 5}}));
  EXPECT_EQ(again.find("b"), (Figures{{"GBps", 2}}));
  // Nothing but the file itself stays.
  const auto files = std::filesystem::directory_iterator(std::filesystem::path(path()).parent_path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST_F(Cache, RemembersForAWhileWhatFailed) {
  const LinkCache::Clock::time_point now = LinkCache::Clock::now();
  LinkCache cache(path());
  cache.add_failure("a", now);
  cache.add("b", {{"GBps", 2}});
  cache.add_failure("b", now);  // what is known stays
  cache.save();
  LinkCache again(path());
  again.load();
  EXPECT_TRUE(again.failed_lately("a", now + std::chrono::minutes(4)));
  EXPECT_FALSE(again.failed_lately("a", now + std::chrono::minutes(6)));
  EXPECT_FALSE(again.failed_lately("a", now - std::chrono::minutes(1)));  // the clock was put back
  EXPECT_FALSE(again.failed_lately("b", now));
  EXPECT_EQ(again.find("b"), (Figures{{"GBps", 2}}));
  EXPECT_FALSE(again.failed_lately("c", now));
  again.add_failure("a", now + std::chrono::minutes(6));
  EXPECT_TRUE(again.failed_lately("a", now + std::chrono::minutes(7)));
  again.add("a", {{"GBps", 1}});
  EXPECT_FALSE(again.failed_lately("a", now + std::chrono::minutes(7)));
}

TEST_F(Cache, ForgetsTheOldest) {
  LinkCache cache(path());
  for (int i = 0; i < 100; ++i) cache.add(std::to_string(i), {{"GBps", 1}});
  EXPECT_FALSE(cache.find("0"));
  EXPECT_TRUE(cache.find("99"));
}

TEST_F(Cache, BelievesNothingOfAMalformedFile) {
  const std::string good = R"({"key": "a", "figures": {"GBps": 1}})";
  const auto file = [](const std::string& entries) {
    return R"({"roda_link_cache": 1, "entries": [)" + entries + "]}";
  };
  EXPECT_NE(complaint("").find("is malformed (is no JSON"), std::string::npos);
  EXPECT_NE(complaint("[]").find("the cache: is no object"), std::string::npos);
  EXPECT_NE(complaint(R"({"roda_link_cache": 2, "entries": []})").find("must be a whole number"), std::string::npos);
  EXPECT_NE(complaint(file(good + R"(, {"key": "b", "figures": {"GBps": -1}})")).find("\"GBps\" is out of range"),
            std::string::npos);
  EXPECT_NE(complaint(file(good + R"(, {"key": "b", "figures": {"GBps": "1"}})")).find("must be a number"),
            std::string::npos);
  EXPECT_NE(complaint(file(good + R"(, {"key": "b"})")).find("entry 1: has no \"figures\""), std::string::npos);
  EXPECT_NE(complaint(file(good) + std::string(100000, ' ')).find("more than 65536 bytes"), std::string::npos);
}

TEST_F(Cache, CanBeDoneWithout) {
  LinkCache nowhere("");
  nowhere.load();
  nowhere.save();
  LinkCache forbidden("/proc/no/links.json");
  forbidden.load();
  forbidden.add("a", {{"GBps", 1}});
  forbidden.save();
  EXPECT_TRUE(forbidden.find("a"));
}

TEST(CacheKey, TellsListsOfWordsApart) {
  EXPECT_NE(cache_key({"a | b"}), cache_key({"a", "b"}));
  EXPECT_NE(cache_key({"a\" | \"b"}), cache_key({"a", "b"}));
  EXPECT_NE(cache_key({"\xff"}), "");
}

}  // namespace
}  // namespace roda::engine
