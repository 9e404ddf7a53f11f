// What the two halves of a link agree on beyond the conformance kit: lengths that differ, tags shared by short and long
// messages, receives that were asked about, and a peer that is gone.
#include <gtest/gtest.h>
#include <signal.h>

#include <barrier>
#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/transports/thread_ranks.h"
#include "transports/gloo/gloo.h"
#include "transports/gloo/link.h"

namespace roda::transport_test {
namespace {

constexpr std::size_t kShort = 100, kLong = 100000;

// Starts and drives to the end.
int send(Member& member, int peer, std::uint64_t tag, const std::vector<char>& data) {
  roda_request* request = nullptr;
  const int code = member.send(peer, tag, data.data(), data.size(), &request);
  return code == RODA_OK ? member.wait(request) : code;
}
int receive(Member& member, int peer, std::uint64_t tag, std::vector<char>* data) {
  roda_request* request = nullptr;
  const int code = member.receive(peer, tag, data->data(), data->size(), &request);
  return code == RODA_OK ? member.wait(request) : code;
}

// Rank 0 sends `sent` bytes, rank 1 expects others and is told both, whoever comes first.
void expect_refused(std::size_t sent, std::size_t expected, bool posted_first) {
  Board board;
  std::barrier first(2);
  run_ranks(2, [&](int rank) {
    Member member(roda_gloo_transport(), board, rank, 2);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    roda_request* request = nullptr;
    std::vector<char> data(rank == 0 ? sent : expected, 'd');
    if ((rank == 1) != posted_first) first.arrive_and_wait();
    const int begun = rank == 0 ? member.send(1, 9, data.data(), data.size(), &request)
                                : member.receive(0, 9, data.data(), data.size(), &request);
    if ((rank == 1) == posted_first) first.arrive_and_wait();
    const int code = begun == RODA_OK ? member.wait(request) : begun;
    if (rank == 0) return;
    EXPECT_EQ(code, RODA_ERR_INVALID) << member.text();
    EXPECT_EQ(member.error_rank(), 100);
    EXPECT_TRUE(contains(member.text(), "messages with rank 100 in group test: sent " + std::to_string(sent) +
                                            " bytes where " + std::to_string(expected) + " were expected"))
        << member.text();
  });
}

TEST(GlooMessages, LengthsThatDifferAreNamedOnTheReceiver) {
  for (const bool posted_first : {true, false}) {
    expect_refused(kShort, kShort + 1, posted_first);
    expect_refused(kShort, kLong, posted_first);
    expect_refused(kLong, kShort, posted_first);
    expect_refused(kLong, kLong + 1, posted_first);
    expect_refused(kLong, kLong - 1, posted_first);
    expect_refused(0, kLong, posted_first);
  }
}

// Every mixture of lengths under one tag, the receives posted before, between and after.
TEST(GlooMessages, OneTagKeepsItsOrderOverAllLengths) {
  const std::vector<std::size_t> lengths{kLong, kShort, kLong, kLong + 8, 0, kLong + 8, kShort, kLong};
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(roda_gloo_transport(), board, rank, 2);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    std::vector<std::vector<char>> data;
    std::vector<roda_request*> requests(lengths.size(), nullptr);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      data.emplace_back(lengths[i], static_cast<char>(rank == 0 ? 'a' + static_cast<int>(i) : 'x'));
    }
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const int code = rank == 0 ? member.send(1, 7, data[i].data(), lengths[i], &requests[i])
                                 : member.receive(0, 7, data[i].data(), lengths[i], &requests[i]);
      ASSERT_EQ(code, RODA_OK) << member.text();
      if (rank == 1 && i == 3) {
        EXPECT_EQ(member.wait(std::exchange(requests[0], nullptr)), RODA_OK) << member.text();
      }
    }
    for (roda_request* request : requests) EXPECT_EQ(member.wait(request), RODA_OK) << member.text();
    for (std::size_t i = 0; i < lengths.size() && rank == 1; ++i) {
      EXPECT_EQ(data[i], std::vector<char>(lengths[i], static_cast<char>('a' + static_cast<int>(i))))
          << "message " << i;
    }
    member.leave();
  });
}

// A receive that waits for long asks what has become of its message. The question may be answered by the message, also
// by one that was on its way, and must not be held against the tag's next one, which has another length.
TEST(GlooMessages, AQuestionThatTheMessageAnswersIsForgotten) {
  Board board;
  std::barrier done(2);
  run_ranks(2, [&](int rank) {
    Member member(roda_gloo_transport(), board, rank, 2);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    for (const std::size_t bytes : {kLong, kShort, kLong + 1}) {
      std::vector<char> data(bytes, rank == 0 ? 'd' : 'x'), word(1, 'w');
      if (rank == 1) {
        roda_request *late = nullptr, *back = nullptr;
        ASSERT_EQ(member.receive(0, 5, data.data(), bytes, &late), RODA_OK) << member.text();
        // Longer than a link's patience.
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(120);
        while (std::chrono::steady_clock::now() < end) member.progress();
        ASSERT_EQ(member.send(0, 6, word.data(), 1, &back), RODA_OK) << member.text();
        EXPECT_EQ(member.wait(back), RODA_OK) << member.text();
        EXPECT_EQ(member.wait(late), RODA_OK) << member.text();
        EXPECT_EQ(data, std::vector<char>(bytes, 'd'));
      } else {
        EXPECT_EQ(receive(member, 1, 6, &word), RODA_OK) << member.text();
        EXPECT_EQ(send(member, 1, 5, data), RODA_OK) << member.text();
      }
    }
    done.arrive_and_wait();
  });
}

// More than the ring holds, to a rank that asks for nothing but one long message of another tag.
TEST(GlooMessages, ShortMessagesThatNobodyWantsYetHoldUpNobody) {
  constexpr int kMessages = 300;
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(roda_gloo_transport(), board, rank, 2);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    std::vector<char> data(kLong, 'd');
    std::vector<int> numbers(kMessages, -1);
    if (rank == 0) {
      std::vector<roda_request*> requests(kMessages, nullptr);
      for (int i = 0; i < kMessages; ++i) {
        numbers[static_cast<std::size_t>(i)] = i;
        ASSERT_EQ(member.send(1, static_cast<std::uint64_t>(100 + i), &numbers[static_cast<std::size_t>(i)], sizeof i,
                              &requests[static_cast<std::size_t>(i)]),
                  RODA_OK);
      }
      for (roda_request* request : requests) EXPECT_EQ(member.wait(request), RODA_OK) << member.text();
      EXPECT_EQ(send(member, 1, 1, data), RODA_OK) << member.text();
    } else {
      EXPECT_EQ(receive(member, 0, 1, &data), RODA_OK) << member.text();
      for (int i = kMessages; i-- > 0;) {
        roda_request* request = nullptr;
        ASSERT_EQ(member.receive(0, static_cast<std::uint64_t>(100 + i), &numbers[static_cast<std::size_t>(i)],
                                 sizeof i, &request),
                  RODA_OK);
        EXPECT_EQ(member.wait(request), RODA_OK) << member.text();
        EXPECT_EQ(numbers[static_cast<std::size_t>(i)], i);
      }
    }
    member.leave();
  });
}

// Writing to a lost connection raises SIGPIPE on the thread that writes, which is the caller's here.
TEST(GlooMessages, SendingToARankThatIsGoneIsAnErrorAndNoSignal) {
  Board board;
  std::barrier formed(2);
  ::signal(SIGPIPE, SIG_DFL);
  run_ranks(2, [&](int rank) {
    Member member(roda_gloo_transport(), board, rank, 2);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    std::vector<char> data(kShort, 'd');
    EXPECT_EQ(rank == 0 ? receive(member, 1, 1, &data) : send(member, 0, 1, data), RODA_OK) << member.text();
    formed.arrive_and_wait();
    if (rank == 1) return;
    int code = RODA_OK;
    for (int i = 0; i < 100000 && code == RODA_OK; ++i) code = send(member, 1, 2, data);
    EXPECT_EQ(code, RODA_ERR_PEER) << member.text();
    EXPECT_EQ(member.error_rank(), 101);
  });
}

TEST(GlooMessages, SlotsOfLongMessagesDifferAndKeepApartFromGloos) {
  std::set<std::uint64_t> slots;
  std::size_t count = 0;
  for (std::uint64_t tag = 1; tag != 0; tag <<= 1) {
    for (std::uint64_t bytes = gloo::Frame::kPayloadBytes + 1; bytes < 20000; bytes += 7, ++count) {
      slots.insert(gloo::long_slot(tag, bytes));
    }
  }
  EXPECT_EQ(slots.size(), count);
  EXPECT_GE(*slots.begin(), 1ULL << 63);
}

}  // namespace
}  // namespace roda::transport_test
