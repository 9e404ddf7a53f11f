// Records of the log: what ranks say goes through the combiners of two hosts into the negotiators of two ranks, which
// must come to the same end.
#include <array>
#include <deque>

#include "core/negotiate/negotiator.h"
#include "core/wire/combiner.h"
#include "tests/fuzz/fuzz.h"

namespace roda::fuzz {
namespace {

using wire::Combiner;

constexpr int kRanks = 4;
constexpr int kCached = 70;  // bits in two words

// What follows from the log, and the combiners that are told of it.
class Listener final : public negotiate::Outcome {
 public:
  explicit Listener(std::span<Combiner> combiners) : combiners_(combiners) {}
  void announced(const std::string&, int, std::span<const wire::RankRange> ranks) override {
    for (const wire::RankRange& r : ranks) require(r.first >= 0 && r.last < kRanks, "announced by ranks of the job");
  }
  void complete(const negotiate::Agreed& tensor, std::int32_t last) override {
    require(last >= 0 && last < kRanks, "a rank of the job came last");
    say(tensor.name);
    say(last);
  }
  void late(const negotiate::Lateness& lateness) override {
    require(lateness.rank >= 0 && lateness.rank < kRanks, "a rank of the job is late");
    require(std::strlen(lateness.cause.data()) < lateness.cause.size(), "its cause has an end");
    say(lateness.rank, lateness.nanoseconds);
  }
  void launch(negotiate::Launch& launch) override {
    require(!launch.tensors.empty(), "a launch of tensors");
    for (const auto& tensor : launch.tensors) say(tensor->name);
    say(launch.set, launch.sequence, launch.bytes);
  }
  void refuse(std::int32_t set, const std::string& name, const Status& error) override {
    require(!error.ok(), "refused with an error");
    say(name + error.message());
    say(set);
  }
  void announce_again(std::int32_t, int) override {}
  void bit_freed(std::int32_t, int) override {}
  void round_over(std::int32_t set, int bit) override {
    for (Combiner& combiner : combiners_) combiner.round_over(set, bit);
    say(set, bit);
  }
  void disputed(std::int32_t set, int bit) override {
    for (Combiner& combiner : combiners_) combiner.disputed(set, bit);
    say(set, bit);
  }
  void join_done(std::int32_t set, std::int32_t last_rank) override {
    for (Combiner& combiner : combiners_) combiner.join_done(set);
    say(set, last_rank);
  }
  void set_added(std::int32_t id, const std::vector<std::int32_t>& ranks) override {
    for (Combiner& combiner : combiners_) combiner.set_added(id, ranks);
    for (const std::int32_t rank : ranks) say(rank);
  }
  void set_removed(std::int32_t id) override {
    for (Combiner& combiner : combiners_) combiner.set_removed(id);
    say(id);
  }
  void shutdown(std::int32_t rank, const std::string& how) override {
    say(rank + static_cast<std::int32_t>(how.size()));
  }
  void all_drained() override { say(1); }

  const std::string& said() const { return said_; }

 private:
  void say(const std::string& text) { said_ += text + '\n'; }
  template <typename... Numbers>
  void say(Numbers... numbers) {
    (say(std::to_string(numbers)), ...);
  }

  std::span<Combiner> combiners_;
  std::string said_;
};

negotiate::Settings settings() {
  negotiate::Settings settings;
  settings.size = kRanks;
  settings.cache_capacity = kCached;
  settings.outstanding = 2;
  return settings;
}

wire::RankRanges ranks(std::int32_t first, std::int32_t last) {
  wire::RankRanges ranges;
  ranges.add(first, last);
  return ranges;
}

// The second host's leader sends to the first's, which orders all.
struct Job {
  std::array<Combiner, 2> combiners{Combiner(ranks(0, 3), kCached), Combiner(ranks(2, 3), kCached)};
  negotiate::Negotiator first{settings(), 0}, last{settings(), kRanks - 1};
  Listener first_heard{combiners}, last_heard{{}};
  Combiner::Clock::time_point now{};

  Job() {
    const std::int32_t all[] = {0, 1, 2, 3};
    for (Combiner& combiner : combiners) combiner.set_added(0, all);
  }

  void say(int rank, std::span<const std::byte> record) { combiners[rank < 2 ? 0 : 1].take(record, now); }

  // False when the log is broken.
  bool carry() {
    Combiner::Record record;
    while (combiners[1].next(now, &record)) combiners[0].take(record, now);
    while (combiners[0].next(now, &record)) {
      const Status status = first.apply(record, &first_heard);
      require(last.apply(record, &last_heard).message() == status.message(), "all ranks judge a record alike");
      require(first_heard.said() == last_heard.said(), "all ranks come to one end");
      if (!status.ok()) return false;
      for (Combiner& combiner : combiners) combiner.want_finished(0, first.wants_finished(0));
      static_cast<void>(first.waiting());
    }
    return true;
  }
};

std::string seed(std::initializer_list<std::pair<int, std::span<const std::byte>>> records) {
  std::string text;
  for (const auto& [rank, record] : records) {
    const auto items = record.subspan(sizeof(wire::RecordHeader));
    text += number(static_cast<std::uint8_t>(rank)) + number(std::uint8_t{0}) +
            chunk({reinterpret_cast<const char*>(items.data()), items.size()});
  }
  return text;
}

using Record = std::vector<std::byte>;

template <typename Fill>
Record record(Fill fill) {
  wire::RecordWriter writer;
  writer.begin(0, 0);
  fill(writer);
  const auto bytes = writer.end();
  return {bytes.begin(), bytes.end()};
}

Record request(const char* name, int collective, std::vector<std::int64_t> shape,
               std::vector<std::int32_t> splits = {}) {
  negotiate::Request r;
  r.name = name;
  r.collective = collective;
  r.dtype = RODA_FLOAT32;
  r.shape = std::move(shape);
  r.splits = std::move(splits);
  return record([&](wire::RecordWriter& w) { w.request(r); });
}

// A record's first item in two parts, which split() makes of long ones only: its kind and length, then a piece.
std::string in_parts(const Record& whole) {
  wire::RecordReader reader(whole);
  wire::ItemView item;
  require(reader.next(&item), "a record of one item");
  const std::string head =
      number(static_cast<std::uint32_t>(item.kind)) + number(static_cast<std::uint32_t>(item.payload.size()));
  const std::size_t half = item.payload.size() / 2;
  const auto part = [&](std::span<const std::byte> piece) {
    return record([&](wire::RecordWriter& w) { w.item(wire::Item::kPart, 0, std::as_bytes(std::span(head)), piece); });
  };
  return seed({{0, part(item.payload.first(half))}, {0, part(item.payload.subspan(half))}});
}

std::string from_all(const Record& record) { return seed({{0, record}, {1, record}, {2, record}, {3, record}}); }

}  // namespace

std::vector<std::string> seeds() {
  using wire::Item;
  const auto number_of = [](Item item, std::uint64_t n) {
    return record([&](wire::RecordWriter& w) { w.number(item, 0, n); });
  };
  const auto plain = [](Item item) {
    return record([&](wire::RecordWriter& w) { w.plain(item, item == Item::kRemoveSet); });
  };
  const std::uint64_t words[] = {3, 1};
  const std::int32_t set[] = {1, 3};
  const wire::RankRange both[] = {{2, 3}};
  std::vector<std::string> seeds;
  for (int collective = 0; collective < RODA_COLLECTIVE_COUNT; ++collective) {
    seeds.push_back(from_all(request("x", collective, {4, 2})));
  }
  seeds.push_back(from_all(request("x", RODA_ALLTOALL, {4, 2}, {1, 1, 1, 1})));
  const std::string twice = seeds[0] + from_all(record([&](wire::RecordWriter& w) { w.bits(0, 0, words); }));
  seeds.push_back(twice + from_all(number_of(Item::kFinished, 1)) + from_all(number_of(Item::kFlush, 1)) +
                  from_all(number_of(Item::kClose, 1)));
  seeds.push_back(seeds[0] + seed({{2, record([&](wire::RecordWriter& w) { w.bits(0, 0, words, both); })}}));
  seeds.push_back(from_all(record([&](wire::RecordWriter& w) { w.add_set(set); })) + from_all(plain(Item::kRemoveSet)));
  seeds.push_back(seed({{1, plain(Item::kShutdown)}}) + from_all(plain(Item::kDrained)));
  seeds.push_back(seed({{1, record([](wire::RecordWriter& w) {
                           w.late({.rank = 3, .steps = 40, .of_steps = 50, .nanoseconds = 48});
                         })}}));
  seeds.push_back(in_parts(request("x", RODA_ALLREDUCE, {1})));
  return seeds;
}

}  // namespace roda::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roda::fuzz;
  Input input(data, size);
  Job job;
  bool is_sound = true;
  while (input && is_sound) {
    roda::wire::RecordHeader header;
    header.rank = input.number<std::uint8_t>() % kRanks;
    const auto flags = input.number<std::uint8_t>();
    header.applied = std::min<std::uint64_t>(flags & 127, job.first.applied());
    const auto items = input.chunk();
    header.bytes = static_cast<std::uint32_t>(sizeof header + items.size());
    std::vector<std::byte> record(header.bytes);
    std::memcpy(record.data(), &header, sizeof header);
    std::copy(items.begin(), items.end(), reinterpret_cast<std::uint8_t*>(record.data() + sizeof header));
    job.say(header.rank, record);
    job.now += std::chrono::milliseconds((flags & 128) != 0 ? 20 : 0);
    is_sound = job.carry();
  }
  job.now += std::chrono::seconds(1);
  if (is_sound) job.carry();
  return 0;
}
