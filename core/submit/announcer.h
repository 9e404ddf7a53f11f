// Turns submissions into records of the log: one bit for a tensor that the cache knows, the full request otherwise.
//
// Owned by the holder of the baton.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "core/negotiate/negotiator.h"
#include "core/submit/operation.h"
#include "core/wire/record.h"

namespace roda::engine {

class Announcer {
 public:
  Announcer(const negotiate::Negotiator& negotiator, std::int32_t rank) : negotiator_(negotiator), rank_(rank) {}

  // Adds to the record under construction. announce: remembers which operation a bit stands for until it is settled.
  void announce(Operation* op);
  void finished(std::int32_t set, std::uint64_t sequence);
  void flush(std::int32_t set, std::uint64_t ready_count);
  void plain(wire::Item kind, std::int32_t set);
  void add_set(std::span<const std::int32_t> ranks);

  bool empty() const { return !begun_; }
  std::size_t bytes() const { return begun_ ? writer_.size() : 0; }
  // The record so far, and starts a new one with the next addition.
  std::span<const std::byte> take();

  // The operation announced by `bit`, or null; forgets it.
  Operation* settle(std::int32_t set, int bit);
  // The same if it is the operation of that name. A tensor may leave the cache between its agreement and its launch;
  // the bit then stands for another one.
  Operation* settle(std::int32_t set, int bit, std::string_view name);
  void forget_set(std::int32_t set) { sets_.erase(set); }

 private:
  void begin();
  Operation** find(std::int32_t set, int bit);

  struct PerSet {
    std::vector<std::uint64_t> words;   // bits of the record under construction
    std::vector<Operation*> announced;  // by bit; null: nothing of this rank's is under way
  };
  const negotiate::Negotiator& negotiator_;
  std::int32_t rank_;
  wire::RecordWriter writer_;
  bool begun_ = false;
  std::map<std::int32_t, PerSet> sets_;
};

}  // namespace roda::engine
