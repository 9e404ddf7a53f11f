// A record of the log: what one rank said at once, or what several said, put together on the way (combiner.h).
// Everything in one record is applied as a unit.
//
// Layout (host byte order; the job's fingerprint refuses a mix): RecordHeader, then items of an ItemHeader and its
// payload, each padded to 8 bytes. A reader trusts nothing: every length is checked against the record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/wire/rank_ranges.h"
#include "core/wire/request.h"
#include "plugins/base/status.h"

namespace roda::wire {

struct RecordHeader {
  std::int32_t rank = 0;      // world rank of the speaker, of one of them in a combined record
  std::uint32_t bytes = 0;    // of the whole record
  std::uint64_t applied = 0;  // log records the speaker had applied when it looked its cache bits up
};

enum class Item : std::uint16_t {
  // Cached tensors by bit: u32 first word, u32 ranges, u64 words[]; where there are ranges (none: the speaker alone),
  // before the words: RankRange ranges[], i32 which of these ranks came last, i32 0.
  kBits = 1,
  kRequest = 2,    // what one rank asks for: RequestHead in record.cc
  kFinished = 3,   // u64: launches of `set` that the speaker completed
  kAddSet = 4,     // i32 ranks[], sorted
  kRemoveSet = 5,  // of `set`
  kShutdown = 6,   // text: how the speaker came to it, "called hvd.shutdown()"
  kDrained = 7,    // the speaker has nothing in flight any more and has seen the shutdown
  kFlush = 8,      // u64: the hold window of tensors that were ready before this count of `set` is over
  kClose = 9,      // u64: of tensors on devices of that kind (kind_of; 0: all) in `set` no more come for now
  kPart = 10,      // of an item that is too long for a record
  kRollCall = 11,  // the speaker found that nothing moves: every rank says kPresent
  kPresent = 12,
  kSetEnded = 14,  // u64: the speaker's last launch of that removed set (Negotiator::number) has ended
  kTuning = 13,    // of rank 0: u64 threshold, u32 hold, u32 outstanding, rules' text; in force for all that follows
  kLate = 15,      // negotiate::Lateness
};

// Short: a rank's bits and what it has finished fit into one cache line of the log.
struct ItemHeader {
  std::uint32_t kind : 8 = 0;
  std::int32_t set : 24 = 0;
  std::uint32_t bytes = 0;  // of the payload, without padding
};

// Builds one record in a buffer that is reused. It may become longer than a record may be: see split(). Bits are
// several items where they are many. Not thread-safe.
class RecordWriter {
 public:
  void begin(std::int32_t rank, std::uint64_t applied);
  // Said by each of `ranks`, by `last` after the others; empty: by the speaker.
  void bits(std::int32_t set, std::uint32_t first_word, std::span<const std::uint64_t> words,
            std::span<const RankRange> ranks = {}, std::int32_t last = -1);
  void request(const negotiate::Request& request);
  void number(Item kind, std::int32_t set, std::uint64_t value);  // kFinished, kFlush, kClose, kSetEnded
  void add_set(std::span<const std::int32_t> ranks) { item(Item::kAddSet, 0, std::as_bytes(ranks)); }
  void tuning(const negotiate::Tuning& tuning);
  void late(const negotiate::Lateness& lateness) { item(Item::kLate, 0, std::as_bytes(std::span(&lateness, 1))); }
  void shutdown(std::string_view how) { item(Item::kShutdown, 0, std::as_bytes(std::span(how))); }
  void plain(Item kind, std::int32_t set) { item(kind, set, {}); }  // kRemoveSet, kDrained, kRollCall, kPresent
  // Valid until the next begin().
  std::span<const std::byte> end();
  std::size_t size() const { return buffer_.size(); }

  // An item as it is: its payload in two parts.
  void item(Item kind, std::int32_t set, std::span<const std::byte> payload, std::span<const std::byte> rest = {});
  // What an item of so much payload adds to the record.
  static std::size_t item_bytes(std::size_t payload);

 private:
  std::byte* start_item(Item kind, std::int32_t set, std::size_t bytes);
  std::vector<std::byte> buffer_;
};

// One item as read: the payload points into the record.
struct ItemView {
  Item kind = Item::kBits;
  std::int32_t set = 0;
  std::span<const std::byte> payload;
};

// Walks a record. `ok()` is false after malformed bytes, with the reason.
class RecordReader {
 public:
  explicit RecordReader(std::span<const std::byte> record);
  const RecordHeader& header() const { return header_; }
  // False at the end, or on malformed bytes.
  bool next(ItemView* item);
  const Status& status() const { return status_; }

 private:
  std::span<const std::byte> rest_;
  RecordHeader header_;
  Status status_;
};

// Item payloads. Each returns an error that says what is wrong with the bytes.
Status read_request(const ItemView& item, std::int32_t rank, negotiate::Request* request);
Status read_number(const ItemView& item, std::uint64_t* value);
Status read_ranks(const ItemView& item, std::vector<std::int32_t>* ranks);
Status read_tuning(const ItemView& item, negotiate::Tuning* tuning);
// In a job of so many ranks.
Status read_lateness(const ItemView& item, std::int32_t size, negotiate::Lateness* lateness);
std::string read_text(const ItemView& item);  // kShutdown
struct Bits {
  std::uint32_t first_word = 0;
  std::span<const std::uint64_t> words;
  std::span<const RankRange> ranks;  // sorted and disjoint; empty: the record's speaker
  std::int32_t last = -1;            // that one of `ranks` which came last; -1: the record's speaker

  // Calls use(bit) for each bit that is set.
  void each(auto use) const {
    for (std::size_t w = 0; w < words.size(); ++w) {
      for (std::uint64_t word = words[w]; word != 0; word &= word - 1) {
        use(static_cast<int>((first_word + w) * 64) + __builtin_ctzll(word));
      }
    }
  }
};
// The spans point into the record.
Status read_bits(const ItemView& item, Bits* bits);

// --- Records have a limit, items have none: what is longer travels in several records, an item that is longer than a
// record in parts. ---

// The rings of every host take a record of this length.
inline constexpr std::size_t kMostRecordBytes = 32u << 10;
// An item in parts has at most so many bytes: the splits of four million ranks.
inline constexpr std::size_t kMostItemBytes = 16u << 20;

// The same items, in order, in records of at most kMostRecordBytes.
std::vector<std::vector<std::byte>> split(std::span<const std::byte> record);

// Puts the parts of items together again. Those of one item follow one another in the records of their speaker, among
// whatever other ranks say. Not thread-safe.
class Parts {
 public:
  // What was said so far, and after the last part the whole item: its payload lies in *bytes. `*is_whole` says which.
  Status take(const ItemView& part, std::int32_t rank, std::vector<std::byte>* bytes, ItemView* item, bool* is_whole);

 private:
  struct Begun {
    std::uint16_t kind = 0;
    std::int32_t set = 0;
    std::uint32_t total = 0;
    std::vector<std::byte> bytes;
  };
  std::map<std::int32_t, Begun> begun_;  // by speaker
};

}  // namespace roda::wire
