// What the ranks below a leader say, put together into few records before it travels on.
//
// Ranks announce tensors that the cache knows by bits, and report finished launches; a leader that has heard the same
// bit from every rank below it says so once, for all of them, and the leader above combines what it hears again. So a
// leader sends one record up for what its ranks announce, however many they are, and the log grows by the number of
// announcements, not of ranks (the bit vector of Horovod's response cache and the control tree of Kurth et al.,
// "Exascale Deep Learning for Climate Analytics", SC 2018, in one). Whatever else a rank says passes as it is, after
// all that was said before it.
//
// An announcement that not all have made waits kHold for the others, then travels with the ranks it has, for the report
// of a stall. Nothing is waited for that does not come: in process sets where ranks have joined, or of a tensor that
// others announce in full. What is said of sets that the combiner does not know passes as it is.
//
// Not thread-safe: owned by the holder of the baton.
#pragma once

#include <algorithm>
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
  static constexpr std::chrono::milliseconds kHold{50};

  // `below`: the world ranks whose records come here. `cache_capacity` of every process set: no rank has higher bits.
  Combiner(RankRanges below, int cache_capacity)
      : below_(std::move(below)), cache_words_((static_cast<std::uint64_t>(cache_capacity) + 63) / 64) {}

  // The process sets that there are.
  void set_added(std::int32_t id, std::span<const std::int32_t> ranks) {
    Set& set = sets_[id];
    set = Set();  // ids are used again: a late report about the one before must not count
    set.expected = static_cast<std::int32_t>(
        std::ranges::count_if(ranks, [this](std::int32_t rank) { return below_.contains(rank); }));
  }

  void set_removed(std::int32_t id) { sets_.erase(id); }

  // Ends what a join that came by began. Any set.
  void join_done(std::int32_t id) {
    const auto it = sets_.find(id);
    if (it == sets_.end()) return;
    it->second.has_joins = false;
    for (Held& held : it->second.bits) held.ahead.clear();
  }

  // Whether what the log says of the set waits for launches to finish, by whoever has applied all of it that came here.
  void want_finished(std::int32_t id, bool is_wanted) {
    const auto it = sets_.find(id);
    if (it != sets_.end()) it->second.finished_is_wanted = is_wanted;
  }

  // The log says that the bit's round is over, or that it stands for another tensor from now on, or for none.
  void round_over(std::int32_t id, int bit) {
    const auto it = sets_.find(id);
    if (it == sets_.end() || static_cast<std::size_t>(bit) >= it->second.bits.size()) return;
    it->second.bits[static_cast<std::size_t>(bit)].ahead.clear();
    it->second.bits[static_cast<std::size_t>(bit)].is_disputed = false;
  }

  // Until then not all ranks will announce the bit: the log has its tensor in full, or nothing to stand for it.
  void disputed(std::int32_t id, int bit) {
    const auto it = sets_.find(id);
    if (it == sets_.end() || static_cast<std::size_t>(bit) >= cache_words_ * 64) return;
    Held& held = held_of(bit, &it->second);
    held.is_disputed = true;
    if (held.who.empty() || held.listed) return;
    std::erase(it->second.held, bit);
    list(bit, &held, &it->second);
  }

  // What one of the ranks below says, or a combiner below. Malformed records pass: whoever applies them reports it.
  void take(std::span<const std::byte> record, Clock::time_point now) {
    if (!can_combine(record)) return pass(record);
    RecordReader reader(record);
    ItemView item;
    while (reader.next(&item)) {
      Set& set = sets_.at(item.set);
      std::uint64_t sequence = 0;
      Bits bits;
      if (read_number(item, &sequence).ok() && item.kind == Item::kFinished) {
        take_finished(sequence, reader.header().rank, &set);
      } else if (read_bits(item, &bits).ok()) {
        take_bits(bits, reader.header(), &set, now);
      }
    }
  }

  // The next record to travel on; false when there is none at this time.
  bool next(Clock::time_point now, Record* record) {
    if (ready_.empty()) {
      for (auto& [id, set] : sets_) {
        if (due(set) > now) continue;
        compose(id, &set, set.has_joins || set.since + kHold <= now);
      }
    }
    if (ready_.empty()) return false;
    *record = std::move(ready_.front());
    ready_.pop_front();
    return true;
  }

  // Whether one of the ranks below has called the roll since the last question.
  bool heard_roll_call() { return std::exchange(heard_roll_call_, false); }
  // When next() has something although nothing more is taken; max() if it won't.
  Clock::time_point deadline() const {
    if (!ready_.empty()) return Clock::time_point::min();
    auto first = Clock::time_point::max();
    for (const auto& [id, set] : sets_) first = std::min(first, due(set));
    return first;
  }

 private:
  struct Held {
    RankRanges who;
    std::int32_t last = -1;              // of `who`
    RankRanges ahead;                    // whose announcements of this round have travelled already
    std::uint64_t applied = UINT64_MAX;  // the least of the headers of `who`
    bool listed = false;                 // in `complete`
    bool is_disputed = false;
    bool is_complete(std::int32_t expected) const { return is_disputed || who.count() + ahead.count() == expected; }
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
    bool finished_is_wanted = false;
  };

  bool can_combine(std::span<const std::byte> record) {
    RecordReader reader(record);
    ItemView item;
    bool combines = below_.contains(reader.header().rank);
    while (reader.next(&item)) {
      const auto set = sets_.find(item.set);
      Bits bits;
      std::uint64_t sequence = 0;
      if (item.kind == Item::kBits) {
        combines = combines && set != sets_.end() && read_bits(item, &bits).ok() &&
                   bits.first_word + bits.words.size() <= cache_words_;
      } else if (item.kind == Item::kFinished) {
        combines = combines && set != sets_.end() && read_number(item, &sequence).ok();
      } else {
        combines = false;
        heard_roll_call_ = heard_roll_call_ || item.kind == Item::kRollCall;
        negotiate::Request request;
        const bool is_join =
            item.kind == Item::kRequest && read_request(item, 0, &request).ok() && request.collective == RODA_JOIN;
        if (is_join && set != sets_.end()) set->second.has_joins = true;
      }
    }
    return combines && reader.status().ok();
  }

  void take_bits(const Bits& bits, const RecordHeader& header, Set* set, Clock::time_point now) {
    const RankRange speaker{header.rank, header.rank};
    const std::span<const RankRange> ranks = bits.ranks.empty() ? std::span(&speaker, 1) : bits.ranks;
    const std::int32_t last = bits.last < 0 ? header.rank : bits.last;
    bits.each([&](int bit) { take_bit(bit, ranks, header.applied, set, now).last = last; });
  }

  static Held& held_of(int bit, Set* set) {
    if (set->bits.size() <= static_cast<std::size_t>(bit)) set->bits.resize(static_cast<std::size_t>(bit) + 1);
    return set->bits[static_cast<std::size_t>(bit)];
  }

  // The bit may travel.
  static void list(int bit, Held* held, Set* set) {
    set->complete.push_back(bit);
    held->listed = true;
  }

  // What is known of the bit, now that these ranks announce it.
  static Held& begin_round(int bit, std::span<const RankRange> ranks, Set* set) {
    Held& held = held_of(bit, set);
    if (held.ahead.contains(ranks.front().first)) held.ahead.clear();  // a new round, the last one had joined ranks
    return held;
  }

  Held& take_bit(int bit, std::span<const RankRange> ranks, std::uint64_t applied, Set* set, Clock::time_point now) {
    Held& held = begin_round(bit, ranks, set);
    const bool is_new = held.who.empty();
    held.who.add(ranks);
    held.applied = std::min(held.applied, applied);
    if (held.listed) return held;
    if (held.is_complete(set->expected)) {
      if (!is_new) std::erase(set->held, bit);
      list(bit, &held, set);
    } else if (is_new) {
      if (set->held.empty()) set->since = now;
      set->held.push_back(bit);
    }
    return held;
  }

  static void take_finished(std::uint64_t sequence, std::int32_t rank, Set* set) {
    if (sequence <= set->finished) return;
    set->finished = sequence;
    set->finisher = rank;
  }

  // Complete announcements, and with `all` incomplete ones too, as records at the end of ready_.
  void compose(std::int32_t id, Set* set, bool all) {
    std::vector<int>& bits = set->complete;
    if (all) {
      bits.insert(bits.end(), set->held.begin(), set->held.end());
      set->held.clear();
    }
    const bool has_news = set->finished != set->said;
    if (bits.empty() && !has_news) return;
    begin_record(*set, has_news ? set->finisher : -1);
    if (has_news) writer_.number(Item::kFinished, id, set->finished);
    set->said = set->finished;
    while (!bits.empty()) {
      compose_bits(id, set, &bits);
      if (bits.empty() || writer_.size() < kMostRecordBytes / 2) continue;
      end_record();
      begin_record(*set, -1);
    }
    end_record();
  }

  // Begins a record for the bits in `complete`. Without a speaker, one of those who announced the first bit speaks.
  void begin_record(const Set& set, std::int32_t speaker) {
    std::uint64_t applied = UINT64_MAX;
    for (const int bit : set.complete) applied = std::min(applied, set.bits[static_cast<std::size_t>(bit)].applied);
    if (speaker < 0) speaker = set.bits[static_cast<std::size_t>(set.complete.front())].who.ranges().front().first;
    writer_.begin(speaker, applied);
  }

  void end_record() {
    for (Record& record : split(writer_.end())) ready_.push_back(std::move(record));
  }

  // One item: the bits that the same ranks announced as the first of them. The others are left.
  void compose_bits(std::int32_t id, Set* set, std::vector<int>* bits) {
    const RankRanges who = set->bits[static_cast<std::size_t>(bits->front())].who;
    words_.assign((set->bits.size() + 63) / 64, 0);
    rest_.clear();
    std::int32_t came_last = -1;  // with the last of the bits
    for (const int bit : *bits) {
      Held& held = set->bits[static_cast<std::size_t>(bit)];
      if (held.who != who) {
        rest_.push_back(bit);
        continue;
      }
      came_last = held.last;
      words_[static_cast<std::size_t>(bit) / 64] |= std::uint64_t{1} << (bit % 64);
      leave(set->expected, &held);
    }
    const auto first = std::ranges::find_if(words_, [](std::uint64_t w) { return w != 0; });
    const auto last = std::find_if(words_.rbegin(), words_.rend(), [](std::uint64_t w) { return w != 0; }).base();
    writer_.bits(id, static_cast<std::uint32_t>(first - words_.begin()), std::span(first, last), who.ranges(),
                 came_last);
    bits->swap(rest_);
  }

  // The announcements of a bit travel: the next round's begin when all of this one have.
  static void leave(std::int32_t expected, Held* held) {
    if (held->listed || held->is_complete(expected)) {
      held->ahead.clear();
    } else {
      held->ahead.add(held->who.ranges());
    }
    held->who.clear();
    held->applied = UINT64_MAX;
    held->listed = false;
  }

  static Clock::time_point due(const Set& set) {
    constexpr auto kNow = Clock::time_point::min();
    if (!set.complete.empty() || (set.finished_is_wanted && set.finished != set.said)) return kNow;
    if (set.held.empty()) return Clock::time_point::max();
    return set.has_joins ? kNow : set.since + kHold;
  }

  void pass(std::span<const std::byte> record) {
    for (auto& [id, set] : sets_) compose(id, &set, true);
    ready_.emplace_back(record.begin(), record.end());
    note_ahead(record);
  }

  // Bits in a record that passes are not waited for.
  void note_ahead(std::span<const std::byte> record) {
    RecordReader reader(record);
    if (!below_.contains(reader.header().rank)) return;
    const RankRange speaker{reader.header().rank, reader.header().rank};
    for (ItemView item; reader.next(&item);) {
      const auto set = sets_.find(item.set);
      Bits bits;
      if (item.kind != Item::kBits || set == sets_.end() || !read_bits(item, &bits).ok()) continue;
      if (bits.first_word + bits.words.size() > cache_words_) continue;
      const std::span<const RankRange> ranks = bits.ranks.empty() ? std::span(&speaker, 1) : bits.ranks;
      bits.each([&](int bit) { begin_round(bit, ranks, &set->second).ahead.add(ranks); });
    }
  }

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
