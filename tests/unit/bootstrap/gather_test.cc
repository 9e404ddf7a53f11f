#include "core/bootstrap/gather.h"

#include <gtest/gtest.h>

#include <thread>

namespace roda {
namespace {

Store::Clock::time_point deadline() { return Store::Clock::now() + std::chrono::seconds(20); }

// Runs one function per rank on threads that share a store.
template <typename Function>
std::vector<Status> on_ranks(int size, Function function) {
  LocalStore store;
  std::vector<Status> statuses(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] { statuses[static_cast<std::size_t>(rank)] = function(store, rank); });
  }
  for (auto& thread : threads) thread.join();
  return statuses;
}

TEST(Gather, EveryRankGetsTheResultWhateverItsSize) {
  for (std::size_t repeat : {std::size_t{0}, std::size_t{1}, Store::kMaxValue / 2, Store::kMaxValue}) {
    auto statuses = on_ranks(5, [&](Store& store, int rank) {
      std::string result;
      Status status = gather(
          store, rank, 5, "g", std::string(1, static_cast<char>('a' + rank)), deadline(),
          [&](const std::vector<std::string>& all, std::string* out) {
            for (const auto& text : all) *out += std::string(repeat, text[0]);
            return Status();
          },
          &result);
      std::string expected;
      for (char c : {'a', 'b', 'c', 'd', 'e'}) expected += std::string(repeat, c);
      EXPECT_EQ(result, expected);
      return status;
    });
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(Gather, AnErrorOfRankZeroIsEveryRanks) {
  auto statuses = on_ranks(3, [](Store& store, int rank) {
    std::string result = "untouched";
    Status status = gather(
        store, rank, 3, "g", "x", deadline(),
        [](const std::vector<std::string>&, std::string*) { return Status::peer(2, "rank 2 is\nodd"); }, &result);
    EXPECT_EQ(result, "untouched");
    return status;
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), RODA_ERR_PEER);
    EXPECT_EQ(status.rank(), 2);
    EXPECT_EQ(status.message(), "rank 2 is\nodd");
  }
}

TEST(Gather, ARankThatStaysAwayIsNamedOnAll) {
  LocalStore store;
  std::string result;
  auto combine = [](const std::vector<std::string>&, std::string*) { return Status(); };
  Status zero = gather(store, 0, 3, "g", "x", Store::Clock::now(), combine, &result);
  Status two = gather(store, 2, 3, "g", "x", deadline(), combine, &result);
  for (const Status& status : {zero, two}) {
    EXPECT_EQ(status.code(), RODA_ERR_TIMEOUT);
    EXPECT_EQ(status.rank(), 1);
    EXPECT_NE(status.message().find("rank 1 of 3 has not come to 'g'"), std::string::npos);
    EXPECT_NE(status.message().find("HOROVOD_GLOO_TIMEOUT_SECONDS"), std::string::npos);
  }
  LocalStore empty;
  Status lonely = gather(empty, 1, 3, "g", "x", Store::Clock::now(), combine, &result);
  EXPECT_EQ(lonely.rank(), 0);
}

std::vector<Status> agree(const std::vector<std::string>& texts) {
  int size = static_cast<int>(texts.size());
  return on_ranks(size, [&](Store& store, int rank) {
    return check_agreement(store, rank, size, "fingerprint", texts[static_cast<std::size_t>(rank)], deadline());
  });
}

TEST(Agreement, EqualTextsAgree) {
  for (const Status& status : agree({"A=1\nB=2\n", "A=1\nB=2\n", "A=1\nB=2\n"})) EXPECT_TRUE(status.ok());
}

TEST(Agreement, TheOddRanksAndTheirLinesAreNamedOnAll) {
  for (const Status& status : agree({"A=1\nB=2\n", "A=1\nB=3\n", "A=1\nB=2\n", "A=1\nB=3\n", "A=1\nB=2\n"})) {
    EXPECT_EQ(status.code(), RODA_ERR_PRECONDITION);
    EXPECT_EQ(status.rank(), 1);
    EXPECT_EQ(status.message(), "the ranks do not agree: ranks 1, 3: B=3 (others: 2)");
  }
}

TEST(Agreement, OfTwoEqualGroupsBothAreNamed) {
  for (const Status& status : agree({"A=1\n", "A=\nC=5\n"})) {
    EXPECT_EQ(status.message(), "the ranks do not agree: rank 1: A= (rank 0: 1), C=5 (rank 0: nothing)");
  }
}

}  // namespace
}  // namespace roda
