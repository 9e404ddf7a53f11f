// What the ranks below a leader say, put together into few records before it travels on.
//
// Ranks announce tensors that the cache knows by bits, and report finished launches; a leader that has heard the same
// bit from every rank below it says so once, for all of them, and the leader above combines what it hears again. So a
// leader sends one record up for what its ranks announce, however many they are, and the log grows by the number of
// announcements, not of ranks (the bit vector of Horovod's response cache and the control tree of Kurth et al.,
// "Exascale Deep Learning for Climate Analytics", SC 2018, in one). Whatever else a rank says passes as it is, after
// all that was said before it.
//
// An announcement that not all have made waits kHold for the others, then travels with the ranks it has: a straggler,
// and the report of a stall, are not held up by more than that. Bits of process sets in which ranks have joined are not
// waited for at all; what is said of sets that the combiner does not know passes as it is.
//
// Not thread-safe: owned by the holder of the baton.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/wire/rank_ranges.h"
#include "core/wire/record.h"

namespace roda::wire {

class Combiner {
 public:
  using Clock = std::chrono::steady_clock;
  using Record = std::vector<std::byte>;
  static constexpr std::chrono::milliseconds kHold{10};
  // A finished launch mostly waits for an announcement to travel with; nobody may need it, or all wait for it.
  static constexpr std::chrono::milliseconds kHoldFinished{1};

  // `below`: the world ranks whose records come here. `cache_capacity` of every process set: no rank has higher bits.
  Combiner(RankRanges below, int cache_capacity)
      : below_(std::move(below)), cache_words_((static_cast<std::uint64_t>(cache_capacity) + 63) / 64) {}

  // The process sets that there are.
  void set_added(std::int32_t set, std::span<const std::int32_t> ranks);
  void set_removed(std::int32_t set);
  // Ends what a join that came by began. Any set.
  void join_done(std::int32_t set);
  // The log says that the bit's round is over, or that it stands for another tensor from now on, or for none.
  void round_over(std::int32_t set, int bit);

  // What one of the ranks below says, or a combiner below. Malformed records pass: whoever applies them reports it.
  void take(std::span<const std::byte> record, Clock::time_point now);
  // The next record to travel on; false when there is none at this time.
  bool next(Clock::time_point now, Record* record);
  // Whether one of the ranks below has called the roll since the last question.
  bool heard_roll_call() { return std::exchange(heard_roll_call_, false); }
  // When next() has something although nothing more is taken; max() if it won't.
  Clock::time_point deadline() const;

 private:
  struct Held {
    RankRanges who;
    RankRanges ahead;                    // whose announcements of this round have travelled already
    std::uint64_t applied = UINT64_MAX;  // the least of the headers of `who`
    bool listed = false;                 // in `complete`
    bool is_complete(std::int32_t expected) const { return who.count() + ahead.count() == expected; }
  };
  struct Set {
    std::int32_t expected = 0;  // members below
    bool has_joins = false;
    std::vector<Held> bits;      // by bit; `who` is empty where nothing is held
    std::vector<int> held;       // bits that some have announced
    std::vector<int> complete;   // bits that all have; they may travel
    Clock::time_point since{};   // when the first of `held` came
    std::uint64_t finished = 0;  // the highest sequence that anybody finished
    std::uint64_t said = 0;      // and that travelled on
    std::int32_t finisher = -1;
    Clock::time_point finished_at{};
    bool finished_is_urgent = false;
  };

  bool can_combine(std::span<const std::byte> record);
  void take_bits(const Bits& bits, const RecordHeader& header, Set* set, Clock::time_point now);
  void take_bit(int bit, std::span<const RankRange> ranks, std::uint64_t applied, Set* set, Clock::time_point now);
  void take_finished(std::uint64_t sequence, std::int32_t rank, bool urgent, Set* set, Clock::time_point now);
  // Complete announcements, and with `all` incomplete ones too, as records at the end of ready_.
  void compose(std::int32_t id, Set* set, bool all);
  void begin_record(const Set& set, std::int32_t speaker);
  void end_record();
  void compose_bits(std::int32_t id, Set* set, std::vector<int>* bits);
  static void leave(std::int32_t expected, Held* held);
  static Clock::time_point due(const Set& set);
  void pass(std::span<const std::byte> record);

  RankRanges below_;
  std::uint64_t cache_words_;
  std::map<std::int32_t, Set> sets_;
  RecordWriter writer_;
  std::vector<std::uint64_t> words_;
  std::vector<int> rest_;
  std::deque<Record> ready_;
  bool heard_roll_call_ = false;
};

}  // namespace roda::wire
