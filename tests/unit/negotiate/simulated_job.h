// N negotiators fed with one log, as N ranks would be.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/negotiate/negotiator.h"

namespace roda::negotiate {

// Writes down what follows from the log as text, so that ranks can be compared.
class Diary final : public Outcome {
 public:
  void complete(const Agreed& tensor, std::int32_t last) override { came_last[tensor.name].push_back(last); }
  void late(const Lateness& lateness) override { lines.push_back("late " + std::to_string(lateness.rank)); }
  void launch(Launch& l) override {
    std::string text = "launch " + std::to_string(l.set) + "#" + std::to_string(l.sequence);
    for (const auto& t : l.tensors) text += " " + t->name;
    lines.push_back(text);
    launches.push_back(l);
  }
  void refuse(std::int32_t set, const std::string& name, const Status& error) override {
    lines.push_back("refuse " + std::to_string(set) + " " + name);
    errors[name] = error.message();
  }
  void announce_again(std::int32_t, int bit) override { again.push_back(bit); }
  void bit_freed(std::int32_t, int bit) override { freed.push_back(bit); }
  void disputed(std::int32_t, int bit) override { contradicted.push_back(bit); }
  void join_done(std::int32_t, std::int32_t last) override { lines.push_back("joined " + std::to_string(last)); }
  void set_added(std::int32_t id, const std::vector<std::int32_t>&) override {
    lines.push_back("added " + std::to_string(id));
  }
  void set_removed(std::int32_t id) override { lines.push_back("removed " + std::to_string(id)); }
  void set_ended(std::uint64_t number) override { lines.push_back("ended " + std::to_string(number)); }
  void shutdown(std::int32_t rank, const std::string& how) override {
    lines.push_back("shutdown by " + std::to_string(rank) + " who " + how);
  }
  void all_drained() override { lines.push_back("drained"); }
  void tuned(const Tuning& tuning) override {
    Settings settings = negotiator->settings();
    settings.buckets.threshold = static_cast<std::size_t>(tuning.threshold);
    settings.outstanding = static_cast<int>(tuning.outstanding);
    settings.hold = tuning.hold_us > 0;
    settings.rules = static_cast<std::uint32_t>(tuning.select.size());
    negotiator->adjust(settings);
  }

  Negotiator* negotiator = nullptr;  // that it listens to
  std::vector<std::string> lines;
  std::vector<Launch> launches;
  std::map<std::string, std::string> errors;
  std::map<std::string, std::vector<std::int32_t>> came_last;
  std::vector<int> again;  // these two are about this rank's own announcements: they differ between ranks
  std::vector<int> freed;
  std::vector<int> contradicted;
};

class Job {
 public:
  explicit Job(Settings settings) : settings_(settings), diaries(static_cast<std::size_t>(settings.size)) {
    for (int r = 0; r < settings.size; ++r) {
      ranks.push_back(std::make_unique<Negotiator>(settings, r));
      diaries[static_cast<std::size_t>(r)].negotiator = ranks.back().get();
    }
  }

  // One record by `rank`, filled by `fill(writer)`, applied by everybody.
  template <typename Fill>
  void say(int rank, Fill fill) {
    wire::RecordWriter writer;
    writer.begin(rank, at(rank).applied());
    fill(writer);
    const auto bytes = writer.end();
    const std::vector<std::byte> record(bytes.begin(), bytes.end());
    for (int r = 0; r < settings_.size; ++r) {
      const Status s = at(r).apply(record, &diaries[static_cast<std::size_t>(r)]);
      ASSERT_TRUE(s.ok()) << s.message();
    }
  }

  // Announces by bit where the cache knows the tensor.
  void submit(const Request& request) {
    const int bit = request.collective == RODA_JOIN ? -1 : at(request.rank).cached_bit(request);
    say(request.rank, [&](wire::RecordWriter& w) {
      if (bit < 0) return w.request(request);
      std::vector<std::uint64_t> words(static_cast<std::size_t>(bit) / 64 + 1);
      words.back() = std::uint64_t{1} << (bit % 64);
      w.bits(request.set, 0, words);
    });
  }
  void finished(int rank, std::uint64_t sequence, int set = 0) {
    say(rank, [&](wire::RecordWriter& w) { w.number(wire::Item::kFinished, set, sequence); });
  }

  Negotiator& at(int rank) { return *ranks[static_cast<std::size_t>(rank)]; }
  const Diary& diary(int rank = 0) const { return diaries[static_cast<std::size_t>(rank)]; }
  void expect_equal_diaries() const {
    for (const Diary& d : diaries) EXPECT_EQ(d.lines, diaries[0].lines);
  }

 private:
  Settings settings_;

 public:
  std::vector<std::unique_ptr<Negotiator>> ranks;
  std::vector<Diary> diaries;
};

inline Request make_request(int rank, const std::string& name, std::vector<std::int64_t> shape = {4},
                            int collective = RODA_ALLREDUCE, int dtype = RODA_FLOAT32) {
  Request r;
  r.rank = rank;
  r.name = name;
  r.shape = std::move(shape);
  r.collective = collective;
  r.dtype = dtype;
  return r;
}

inline Settings settings_for(int size) {
  Settings s;
  s.size = size;
  return s;
}

}  // namespace roda::negotiate
