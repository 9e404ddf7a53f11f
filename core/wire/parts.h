// Records have a limit, items have none: what is longer travels in several records, an item that is longer than a
// record in parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/wire/record.h"
#include "plugins/base/status.h"

namespace roda::wire {

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
