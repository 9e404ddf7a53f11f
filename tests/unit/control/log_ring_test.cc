#include "core/control/log_ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <thread>

namespace roda::control {
namespace {

// A ring in memory of this process.
class Memory {
 public:
  Memory(std::uint32_t cells, std::uint32_t readers)
      : bytes_(LogRing::bytes_for(cells, readers)), base_(::operator new(bytes_, std::align_val_t{64})) {
    std::memset(base_, 0, bytes_);
    LogRing::format(base_, cells, readers);
  }
  ~Memory() { ::operator delete(base_, std::align_val_t{64}); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  LogRing attach(std::uint32_t reader) { return {base_, reader}; }

 private:
  std::size_t bytes_;
  void* base_;
};

std::vector<std::byte> record_of(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> record(bytes);
  for (std::size_t i = 0; i < bytes; ++i) record[i] = static_cast<std::byte>((i * 131 + seed * 7) & 255);
  return record;
}

TEST(LogRing, KeepsEveryLengthAcrossManyRounds) {
  Memory memory(16, 1);
  LogRing ring = memory.attach(0);
  std::vector<std::byte> read;
  unsigned seed = 0;
  for (int round = 0; round < 20; ++round) {
    for (std::size_t bytes = 0; bytes <= LogRing::max_record(16); bytes += 13, ++seed) {
      const auto record = record_of(bytes, seed);
      ASSERT_EQ(ring.append(record), LogRing::Append::kDone);
      EXPECT_TRUE(ring.pending());
      ASSERT_TRUE(ring.read(&read));
      ASSERT_EQ(read, record);
      EXPECT_FALSE(ring.pending());
      EXPECT_FALSE(ring.read(&read));
    }
  }
}

TEST(LogRing, RefusesWhatIsTooLong) {
  Memory memory(16, 1);
  LogRing ring = memory.attach(0);
  EXPECT_EQ(ring.append(record_of(LogRing::max_record(16), 1)), LogRing::Append::kDone);
  EXPECT_EQ(ring.append(record_of(LogRing::max_record(16) + 1, 1)), LogRing::Append::kTooLong);
}

TEST(LogRing, IsFullUntilTheSlowestReaderReads) {
  Memory memory(16, 2);
  LogRing quick = memory.attach(0);
  LogRing slow = memory.attach(1);
  std::vector<std::byte> read;
  const auto record = record_of(8, 3);
  int appended = 0;
  while (quick.append(record) == LogRing::Append::kDone) ++appended;
  EXPECT_EQ(appended, 16);
  while (quick.read(&read)) continue;
  EXPECT_EQ(quick.append(record), LogRing::Append::kFull);
  EXPECT_EQ(quick.slowest_reader(), 1u);
  ASSERT_TRUE(slow.read(&read));
  EXPECT_EQ(quick.append(record), LogRing::Append::kDone);
  EXPECT_EQ(quick.append(record), LogRing::Append::kFull);
}

// Many writers, many readers, a ring far smaller than the traffic: every reader sees every record whole, in one order
// that all share and that keeps each writer's own.
TEST(LogRing, GivesAllReadersOneOrder) {
  constexpr std::uint32_t kRanks = 4;
  constexpr std::uint32_t kEach = 3000;
  Memory memory(64, kRanks);
  std::vector<std::vector<std::uint64_t>> seen(kRanks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      LogRing ring = memory.attach(rank);
      std::mt19937 random(rank);
      std::vector<std::byte> record, read;
      std::uint32_t sent = 0;
      while (sent < kEach || seen[rank].size() < std::size_t{kRanks} * kEach) {
        if (sent < kEach) {
          const std::uint64_t mark = (std::uint64_t{rank} << 32) | sent;
          record.assign(sizeof mark + random() % 300, static_cast<std::byte>(mark * 17));
          std::memcpy(record.data(), &mark, sizeof mark);
          if (ring.append(record) == LogRing::Append::kDone) ++sent;
        }
        bool moved = false;
        while (ring.read(&read)) {
          std::uint64_t mark = 0;
          std::memcpy(&mark, read.data(), sizeof mark);
          for (std::size_t i = sizeof mark; i < read.size(); ++i) {
            ASSERT_EQ(read[i], static_cast<std::byte>(mark * 17));
          }
          seen[rank].push_back(mark);
          moved = true;
        }
        if (!moved) std::this_thread::yield();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::uint32_t rank = 1; rank < kRanks; ++rank) EXPECT_EQ(seen[rank], seen[0]);
  std::vector<std::uint32_t> next(kRanks);
  for (const std::uint64_t mark : seen[0]) EXPECT_EQ(mark & 0xffffffffu, next[mark >> 32]++);
}

}  // namespace
}  // namespace roda::control
