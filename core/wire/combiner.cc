#include "core/wire/combiner.h"

#include <algorithm>

namespace roda::wire {

void Combiner::set_added(std::int32_t id, std::span<const std::int32_t> ranks) {
  Set& set = sets_[id];
  set = Set();  // ids are used again: a late report about the one before must not count
  set.expected = static_cast<std::int32_t>(
      std::ranges::count_if(ranks, [this](std::int32_t rank) { return below_.contains(rank); }));
}

void Combiner::set_removed(std::int32_t id) { sets_.erase(id); }

void Combiner::join_done(std::int32_t id) {
  const auto it = sets_.find(id);
  if (it == sets_.end()) return;
  it->second.has_joins = false;
  for (Held& held : it->second.bits) held.ahead.clear();
}

void Combiner::round_over(std::int32_t id, int bit) {
  const auto it = sets_.find(id);
  if (it == sets_.end() || static_cast<std::size_t>(bit) >= it->second.bits.size()) return;
  it->second.bits[static_cast<std::size_t>(bit)].ahead.clear();
}

bool Combiner::can_combine(std::span<const std::byte> record) {
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

void Combiner::take(std::span<const std::byte> record, Clock::time_point now) {
  if (!can_combine(record)) return pass(record);
  RecordReader reader(record);
  ItemView item;
  bool has_bits = false;
  while (reader.next(&item)) has_bits = has_bits || item.kind != Item::kFinished;
  reader = RecordReader(record);
  while (reader.next(&item)) {
    Set& set = sets_.at(item.set);
    std::uint64_t sequence = 0;
    Bits bits;
    if (read_number(item, &sequence).ok() && item.kind == Item::kFinished) {
      take_finished(sequence, reader.header().rank, !has_bits, &set, now);
    } else if (read_bits(item, &bits).ok()) {
      take_bits(bits, reader.header(), &set, now);
    }
  }
}

void Combiner::take_finished(std::uint64_t sequence, std::int32_t rank, bool urgent, Set* set, Clock::time_point now) {
  if (sequence <= set->said) return;
  if (set->finished == set->said) set->finished_at = now;
  if (sequence > set->finished) {
    set->finished = sequence;
    set->finisher = rank;
  }
  set->finished_is_urgent = set->finished_is_urgent || urgent;
}

void Combiner::take_bits(const Bits& bits, const RecordHeader& header, Set* set, Clock::time_point now) {
  const RankRange speaker{header.rank, header.rank};
  const std::span<const RankRange> ranks = bits.ranks.empty() ? std::span(&speaker, 1) : bits.ranks;
  bits.each([&](int bit) { take_bit(bit, ranks, header.applied, set, now); });
}

void Combiner::take_bit(int bit, std::span<const RankRange> ranks, std::uint64_t applied, Set* set,
                        Clock::time_point now) {
  if (set->bits.size() <= static_cast<std::size_t>(bit)) set->bits.resize(static_cast<std::size_t>(bit) + 1);
  Held& held = set->bits[static_cast<std::size_t>(bit)];
  if (held.ahead.contains(ranks.front().first)) held.ahead.clear();  // a new round, the last one had joined ranks
  const bool is_new = held.who.empty();
  held.who.add(ranks);
  held.applied = std::min(held.applied, applied);
  if (held.listed) return;
  if (held.is_complete(set->expected)) {
    if (!is_new) std::erase(set->held, bit);
    set->complete.push_back(bit);
    held.listed = true;
  } else if (is_new) {
    if (set->held.empty()) set->since = now;
    set->held.push_back(bit);
  }
}

Combiner::Clock::time_point Combiner::due(const Set& set) {
  constexpr auto kNow = Clock::time_point::min();
  if (!set.complete.empty() || set.finished_is_urgent) return kNow;
  auto when = Clock::time_point::max();
  if (set.finished != set.said) when = set.finished_at + kHoldFinished;
  if (set.held.empty()) return when;
  return set.has_joins ? kNow : std::min(when, set.since + kHold);
}

Combiner::Clock::time_point Combiner::deadline() const {
  if (!ready_.empty()) return Clock::time_point::min();
  auto first = Clock::time_point::max();
  for (const auto& [id, set] : sets_) first = std::min(first, due(set));
  return first;
}

bool Combiner::next(Clock::time_point now, Record* record) {
  if (ready_.empty()) {
    for (auto& [id, set] : sets_) {
      if (due(set) > now) continue;
      const bool waits = !set.has_joins && set.since + kHold > now;
      compose(id, &set, !waits);
    }
  }
  if (ready_.empty()) return false;
  *record = std::move(ready_.front());
  ready_.pop_front();
  return true;
}

void Combiner::pass(std::span<const std::byte> record) {
  for (auto& [id, set] : sets_) compose(id, &set, true);
  ready_.emplace_back(record.begin(), record.end());
}

void Combiner::compose(std::int32_t id, Set* set, bool all) {
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
  set->finished_is_urgent = false;
  while (!bits.empty()) {
    compose_bits(id, set, &bits);
    if (bits.empty() || writer_.size() < kMostRecordBytes / 2) continue;
    end_record();
    begin_record(*set, -1);
  }
  end_record();
}

// Of the bits in `complete`; without a speaker one of those who announced the first of them speaks.
void Combiner::begin_record(const Set& set, std::int32_t speaker) {
  std::uint64_t applied = UINT64_MAX;
  for (const int bit : set.complete) applied = std::min(applied, set.bits[static_cast<std::size_t>(bit)].applied);
  if (speaker < 0) speaker = set.bits[static_cast<std::size_t>(set.complete.front())].who.ranges().front().first;
  writer_.begin(speaker, applied);
}

void Combiner::end_record() {
  for (Record& record : split(writer_.end())) ready_.push_back(std::move(record));
}

// The announcements of a bit travel: the next round's begin when all of this one have.
void Combiner::leave(std::int32_t expected, Held* held) {
  if (held->listed || held->is_complete(expected)) {
    held->ahead.clear();
  } else {
    held->ahead.add(held->who.ranges());
  }
  held->who.clear();
  held->applied = UINT64_MAX;
  held->listed = false;
}

// One item: the bits that the same ranks announced as the first of them. The others are left.
void Combiner::compose_bits(std::int32_t id, Set* set, std::vector<int>* bits) {
  const RankRanges who = set->bits[static_cast<std::size_t>(bits->front())].who;
  words_.assign((set->bits.size() + 63) / 64, 0);
  rest_.clear();
  for (const int bit : *bits) {
    Held& held = set->bits[static_cast<std::size_t>(bit)];
    if (held.who != who) {
      rest_.push_back(bit);
      continue;
    }
    words_[static_cast<std::size_t>(bit) / 64] |= std::uint64_t{1} << (bit % 64);
    leave(set->expected, &held);
  }
  const auto first = std::ranges::find_if(words_, [](std::uint64_t w) { return w != 0; });
  const auto last = std::find_if(words_.rbegin(), words_.rend(), [](std::uint64_t w) { return w != 0; }).base();
  writer_.bits(id, static_cast<std::uint32_t>(first - words_.begin()), std::span(first, last), who.ranges());
  bits->swap(rest_);
}

}  // namespace roda::wire
