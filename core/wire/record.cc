#include "core/wire/record.h"

#include <algorithm>
#include <cstring>

namespace roda::wire {
namespace {

constexpr std::size_t kAlign = 8;
constexpr std::uint32_t kMostWords = 1u << 20;  // bits by the largest cache capacity that a setting may name, and more
// The most words of bits, and the most ranges, in one item: any record has room for such an item.
constexpr std::size_t kItemWords = 1024;
constexpr std::size_t kItemRanges = 1024;
// The head of a request. Behind it: i64 shape[dimensions], i32 splits[num_splits], the name.
struct RequestHead {
  std::uint64_t group = 0;
  double prescale = 1.0;
  double postscale = 1.0;
  std::int32_t root = 0;
  std::int32_t device = -1;
  std::int32_t group_size = 0;
  std::uint32_t name_bytes = 0;
  std::uint32_t num_splits = 0;
  std::int8_t collective = 0;
  std::int8_t dtype = 0;
  std::int8_t op = 0;
  std::uint8_t dimensions = 0;
  std::int64_t wire_format = 0;
};
struct BitsHead {
  std::uint32_t first_word = 0;
  std::uint32_t ranges = 0;
};
// Of the ranges, and of who came last, which lies behind them as one more.
std::size_t ranks_bytes(const BitsHead& head) {
  return head.ranges == 0 ? 0 : (std::size_t{head.ranges} + 1) * sizeof(RankRange);
}
struct TuningHead {
  std::uint64_t threshold = 0;
  std::uint32_t hold_us = 0;
  std::uint32_t outstanding = 0;
};
constexpr std::size_t padded(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

Status malformed(const char* what) {
  return Status::unknown(std::string("malformed control record: ") + what +
                         "; the ranks may run different builds of this library");
}

// What a rank checks of its own operations before it submits them: here of the others', whose records are no better
// than the build that wrote them. What depends on the process set is checked with the ranks' requests together.
Status check(const negotiate::Request& r) {
  if (r.name.size() > negotiate::kMostNameBytes) return malformed("a request's name");
  if (r.shape.size() > negotiate::kMostDimensions) return malformed("a request of too many dimensions");
  auto bytes = static_cast<std::int64_t>(roda_dtype_size(r.dtype));
  for (const std::int64_t d : r.shape) {
    if (d < 0 || __builtin_mul_overflow(bytes, std::max<std::int64_t>(d, 1), &bytes)) {
      return malformed("a request's dimensions");
    }
  }
  if (roda_collective_is(r.collective, RODA_COMBINES) != 0 && (r.op < 0 || r.op >= RODA_REDUCE_OP_COUNT))
    return malformed("a request of an unknown reduction");
  if (r.group.size < 0) return malformed("a request's group");
  return {};
}

struct PartHead {
  std::uint16_t kind = 0;  // of the whole item
  std::uint16_t reserved = 0;
  std::uint32_t total = 0;  // bytes of the whole item's payload
};

constexpr std::size_t kPartBytes = kMostRecordBytes - sizeof(RecordHeader) - sizeof(ItemHeader) - sizeof(PartHead);

Status malformed_part(const char* what, std::int32_t rank) {
  return Status::unknown(std::string("malformed control record: ") + what + " from rank " + std::to_string(rank));
}

}  // namespace

void RecordWriter::begin(std::int32_t rank, std::uint64_t applied) {
  buffer_.resize(sizeof(RecordHeader));
  RecordHeader header;
  header.rank = rank;
  header.applied = applied;
  std::memcpy(buffer_.data(), &header, sizeof header);
}

std::byte* RecordWriter::start_item(Item kind, std::int32_t set, std::size_t bytes) {
  const ItemHeader header{
      .kind = static_cast<std::uint8_t>(kind), .set = set, .bytes = static_cast<std::uint32_t>(bytes)};
  const std::size_t at = buffer_.size();
  buffer_.resize(at + sizeof header + padded(bytes));
  std::memcpy(buffer_.data() + at, &header, sizeof header);
  return buffer_.data() + at + sizeof header;
}

std::size_t RecordWriter::item_bytes(std::size_t payload) { return sizeof(ItemHeader) + padded(payload); }

void RecordWriter::item(Item kind, std::int32_t set, std::span<const std::byte> payload,
                        std::span<const std::byte> rest) {
  std::byte* to = start_item(kind, set, payload.size() + rest.size());
  std::copy(rest.begin(), rest.end(), std::copy(payload.begin(), payload.end(), to));
}

void RecordWriter::bits(std::int32_t set, std::uint32_t first_word, std::span<const std::uint64_t> words,
                        std::span<const RankRange> ranks, std::int32_t last) {
  for (; !words.empty(); words = words.subspan(std::min(kItemWords, words.size()))) {
    const auto some = words.first(std::min(kItemWords, words.size()));
    std::size_t at = 0;
    do {
      const auto who = ranks.subspan(at, std::min(kItemRanges, ranks.size() - at));
      const BitsHead head{first_word, static_cast<std::uint32_t>(who.size())};
      std::byte* to = start_item(Item::kBits, set, sizeof head + ranks_bytes(head) + some.size_bytes());
      std::memcpy(to, &head, sizeof head);
      std::memcpy(to + sizeof head + ranks_bytes(head), some.data(), some.size_bytes());
      if (!who.empty()) *std::copy(who.begin(), who.end(), reinterpret_cast<RankRange*>(to + sizeof head)) = {last, 0};
      at += kItemRanges;
    } while (at < ranks.size());
    first_word += static_cast<std::uint32_t>(some.size());
  }
}

void RecordWriter::request(const negotiate::Request& r) {
  const RequestHead head{.group = r.group.id,
                         .prescale = r.prescale,
                         .postscale = r.postscale,
                         .root = r.root,
                         .device = r.device,
                         .group_size = r.group.size,
                         .name_bytes = static_cast<std::uint32_t>(r.name.size()),
                         .num_splits = static_cast<std::uint32_t>(r.splits.size()),
                         .collective = static_cast<std::int8_t>(r.collective),
                         .dtype = static_cast<std::int8_t>(r.dtype),
                         .op = static_cast<std::int8_t>(r.op),
                         .dimensions = static_cast<std::uint8_t>(r.shape.size()),
                         .wire_format = r.wire_format};
  const auto shape = std::as_bytes(std::span(r.shape));
  const auto splits = std::as_bytes(std::span(r.splits));
  const auto name = std::as_bytes(std::span(r.name));
  std::byte* to = start_item(Item::kRequest, r.set, sizeof head + shape.size() + splits.size() + name.size());
  std::memcpy(to, &head, sizeof head);
  std::ranges::copy(name, std::ranges::copy(splits, std::ranges::copy(shape, to + sizeof head).out).out);
}

void RecordWriter::number(Item kind, std::int32_t set, std::uint64_t value) {
  item(kind, set, std::as_bytes(std::span(&value, 1)));
}

void RecordWriter::tuning(const negotiate::Tuning& tuning) {
  const TuningHead head{tuning.threshold, tuning.hold_us, tuning.outstanding};
  item(Item::kTuning, 0, std::as_bytes(std::span(&head, 1)), std::as_bytes(std::span(tuning.select)));
}

std::span<const std::byte> RecordWriter::end() {
  const auto bytes = static_cast<std::uint32_t>(buffer_.size());
  std::memcpy(buffer_.data() + offsetof(RecordHeader, bytes), &bytes, sizeof bytes);
  return buffer_;
}

RecordReader::RecordReader(std::span<const std::byte> record) {
  if (record.size() < sizeof header_) {
    status_ = malformed("shorter than its header");
    return;
  }
  std::memcpy(&header_, record.data(), sizeof header_);
  if (header_.bytes != record.size()) {
    status_ = malformed("its length is not the one it states");
    return;
  }
  rest_ = record.subspan(sizeof header_);
}

bool RecordReader::next(ItemView* item) {
  if (!status_.ok() || rest_.empty()) return false;
  ItemHeader header;
  if (rest_.size() < sizeof header) {
    status_ = malformed("a cut item header");
    return false;
  }
  std::memcpy(&header, rest_.data(), sizeof header);
  if (padded(header.bytes) > rest_.size() - sizeof header) {
    status_ = malformed("an item longer than the record");
    return false;
  }
  item->kind = static_cast<Item>(header.kind);
  item->set = header.set;
  item->payload = rest_.subspan(sizeof header, header.bytes);
  rest_ = rest_.subspan(sizeof header + padded(header.bytes));
  return true;
}

Status read_request(const ItemView& item, std::int32_t rank, negotiate::Request* request) {
  RequestHead head;
  if (item.payload.size() < sizeof head) return malformed("a cut request");
  std::memcpy(&head, item.payload.data(), sizeof head);
  const std::size_t shape_bytes = head.dimensions * sizeof(std::int64_t);
  const std::size_t splits_bytes = head.num_splits * sizeof(std::int32_t);
  if (item.payload.size() - sizeof head != shape_bytes + splits_bytes + head.name_bytes) {
    return malformed("a request of a wrong size");
  }
  if (head.collective < 0 || head.collective >= RODA_COLLECTIVE_COUNT || roda_dtype_size(head.dtype) == 0) {
    return malformed("a request of an unknown collective or dtype");
  }
  request->rank = rank;
  request->set = item.set;
  request->collective = head.collective;
  request->dtype = head.dtype;
  request->op = head.op;
  request->root = head.root;
  request->device = head.device;
  if (head.wire_format < 0 || head.wire_format >= RODA_WIRE_FORMAT_COUNT) {
    return malformed("a request of an unknown wire format");
  }
  request->wire_format = static_cast<std::int32_t>(head.wire_format);
  request->prescale = head.prescale;
  request->postscale = head.postscale;
  request->group = {head.group, head.group_size};
  const std::byte* from = item.payload.data() + sizeof head;
  request->shape.resize(head.dimensions);
  std::copy_n(from, shape_bytes, reinterpret_cast<std::byte*>(request->shape.data()));
  request->splits.resize(head.num_splits);
  std::copy_n(from + shape_bytes, splits_bytes, reinterpret_cast<std::byte*>(request->splits.data()));
  request->name.assign(reinterpret_cast<const char*>(from + shape_bytes + splits_bytes), head.name_bytes);
  return check(*request);
}

Status read_number(const ItemView& item, std::uint64_t* value) {
  if (item.payload.size() != sizeof *value) return malformed("a number of a wrong size");
  std::memcpy(value, item.payload.data(), sizeof *value);
  return {};
}

std::string read_text(const ItemView& item) {
  return {reinterpret_cast<const char*>(item.payload.data()), item.payload.size()};
}

Status read_tuning(const ItemView& item, negotiate::Tuning* tuning) {
  TuningHead head;
  if (item.payload.size() < sizeof head) return malformed("a cut tuning");
  std::memcpy(&head, item.payload.data(), sizeof head);
  if (head.outstanding < 1 || head.outstanding > 1024) return malformed("a tuning that nobody makes");
  const auto text = item.payload.subspan(sizeof head);
  *tuning = {head.threshold, head.hold_us, head.outstanding,
             std::string(reinterpret_cast<const char*>(text.data()), text.size())};
  return {};
}

Status read_lateness(const ItemView& item, std::int32_t size, negotiate::Lateness* lateness) {
  if (item.payload.size() != sizeof *lateness) return malformed("a rank's lateness of a wrong size");
  std::memcpy(lateness, item.payload.data(), sizeof *lateness);
  if (lateness->rank < 0 || lateness->rank >= size) return malformed("the lateness of no rank");
  if (lateness->cause.back() != '\0') return malformed("a rank's lateness without an end of its cause");
  return {};
}

Status read_ranks(const ItemView& item, std::vector<std::int32_t>* ranks) {
  if (item.payload.size() % sizeof(std::int32_t) != 0) return malformed("a rank list of a wrong size");
  const auto* first = reinterpret_cast<const std::int32_t*>(item.payload.data());
  ranks->assign(first, first + item.payload.size() / sizeof(std::int32_t));
  return {};
}

Status read_bits(const ItemView& item, Bits* bits) {
  BitsHead head;
  if (item.payload.size() < sizeof head) return malformed("a cut bit vector");
  std::memcpy(&head, item.payload.data(), sizeof head);
  const auto behind = item.payload.subspan(sizeof head);
  if (behind.size() < ranks_bytes(head) || behind.size() % sizeof(std::uint64_t) != 0) {
    return malformed("a bit vector of a wrong size");
  }
  const std::size_t words = (behind.size() - ranks_bytes(head)) / sizeof(std::uint64_t);
  if (head.first_word > kMostWords || words > kMostWords) return malformed("bits beyond any cache");
  bits->first_word = head.first_word;
  // Items start on 8-byte boundaries of an 8-byte aligned record, so ranges and words are aligned.
  const auto* ranks = reinterpret_cast<const RankRange*>(behind.data());
  bits->ranks = {ranks, head.ranges};
  bits->words = {reinterpret_cast<const std::uint64_t*>(behind.data() + ranks_bytes(head)), words};
  if (head.ranges != 0) bits->last = ranks[head.ranges].first;
  std::int64_t after = -1;
  for (const RankRange& r : bits->ranks) {
    if (r.first < 0 || r.last < r.first || r.first <= after) return malformed("ranks out of order");
    after = r.last;
  }
  return {};
}

// --- parts -----------------------------------------------------------------------------------------------------------

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
  if (part.payload.size() <= sizeof head) return malformed_part("an empty part", rank);
  std::memcpy(&head, part.payload.data(), sizeof head);
  const auto rest = part.payload.subspan(sizeof head);
  Begun& begun = begun_[rank];
  if (begun.bytes.empty()) begun = {head.kind, part.set, head.total, {}};
  const bool fits = begun.kind == head.kind && begun.set == part.set && begun.total == head.total &&
                    head.total <= kMostItemBytes && rest.size() <= begun.total - begun.bytes.size();
  if (!fits) return malformed_part("a part of another item", rank);
  begun.bytes.insert(begun.bytes.end(), rest.begin(), rest.end());
  if (begun.bytes.size() < begun.total) return {};
  *bytes = std::move(begun.bytes);
  *item = {static_cast<Item>(begun.kind), begun.set, *bytes};
  *is_whole = true;
  begun_.erase(rank);
  return {};
}

}  // namespace roda::wire
