// Turns submissions into records of the log: one bit for a tensor that the cache knows, the full request otherwise.
//
// Owned by the holder of the baton.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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

  // The record under construction, for whoever adds to it; tensors go through announce(), which remembers which
  // operation a bit stands for until it is taken.
  wire::RecordWriter& record();
  void announce(Operation* op);

  bool empty() const { return !begun_; }
  std::size_t bytes() const { return begun_ ? writer_.size() : 0; }
  // The record so far, and starts a new one with the next addition.
  std::span<const std::byte> take();

  // The operation announced by `bit`, or null; forgets it. With a name only if it is the operation of that name: a
  // tensor may leave the cache between its agreement and its launch, and the bit then stands for another one.
  Operation* take_announced(std::int32_t set, int bit, std::optional<std::string_view> name = {});
  void forget_set(std::int32_t set) { sets_.erase(set); }

 private:
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
