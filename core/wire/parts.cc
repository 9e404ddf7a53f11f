#include "core/wire/parts.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace roda::wire {
namespace {

struct PartHead {
  std::uint16_t kind = 0;  // of the whole item
  std::uint16_t reserved = 0;
  std::uint32_t total = 0;  // bytes of the whole item's payload
};

constexpr std::size_t kPartBytes = kMostRecordBytes - sizeof(RecordHeader) - sizeof(ItemHeader) - sizeof(PartHead);

Status malformed(const char* what, std::int32_t rank) {
  return Status::unknown(std::string("malformed control record: ") + what + " from rank " + std::to_string(rank));
}

}  // namespace

std::vector<std::vector<std::byte>> split(std::span<const std::byte> record) {
  std::vector<std::vector<std::byte>> out;
  RecordReader reader(record);
  const RecordHeader header = reader.header();
  RecordWriter writer;
  bool has_items = false;
  const auto end = [&] {
    const auto bytes = writer.end();
    if (has_items) out.emplace_back(bytes.begin(), bytes.end());
    writer.begin(header.rank, header.applied);
    has_items = false;
  };
  writer.begin(header.rank, header.applied);
  for (ItemView item; reader.next(&item);) {
    if (writer.size() + RecordWriter::item_bytes(item.payload.size()) > kMostRecordBytes) end();
    if (RecordWriter::item_bytes(item.payload.size()) <= kMostRecordBytes - sizeof(RecordHeader)) {
      writer.item(item.kind, item.set, item.payload);
      has_items = true;
      continue;
    }
    const PartHead head{static_cast<std::uint16_t>(item.kind), 0, static_cast<std::uint32_t>(item.payload.size())};
    for (std::size_t at = 0; at < item.payload.size(); at += kPartBytes) {
      const auto part = item.payload.subspan(at, std::min(kPartBytes, item.payload.size() - at));
      writer.item(Item::kPart, item.set, std::as_bytes(std::span(&head, 1)), part);
      has_items = true;
      end();
    }
  }
  end();
  return out;
}

Status Parts::take(const ItemView& part, std::int32_t rank, std::vector<std::byte>* bytes, ItemView* item,
                   bool* is_whole) {
  *is_whole = false;
  PartHead head;
  if (part.payload.size() <= sizeof head) return malformed("an empty part", rank);
  std::memcpy(&head, part.payload.data(), sizeof head);
  const auto rest = part.payload.subspan(sizeof head);
  Begun& begun = begun_[rank];
  if (begun.bytes.empty()) begun = {head.kind, part.set, head.total, {}};
  const bool fits = begun.kind == head.kind && begun.set == part.set && begun.total == head.total &&
                    head.total <= kMostItemBytes && rest.size() <= begun.total - begun.bytes.size();
  if (!fits) return malformed("a part of another item", rank);
  begun.bytes.insert(begun.bytes.end(), rest.begin(), rest.end());
  if (begun.bytes.size() < begun.total) return {};
  *bytes = std::move(begun.bytes);
  *item = {static_cast<Item>(begun.kind), begun.set, *bytes};
  *is_whole = true;
  begun_.erase(rank);
  return {};
}

}  // namespace roda::wire
