// A job on several hosts, played in one thread with a clock of its own: negotiators, and a combiner at each host's
// leader, joined by the tree along which records travel.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "algorithms/topology/host_tree.h"
#include "core/wire/combiner.h"
#include "tests/unit/negotiate/simulated_job.h"

namespace roda::negotiate {

struct CombinedShape {
  int hosts, per_host, fan_out;
};
inline void PrintTo(const CombinedShape& s, std::ostream* os) {
  *os << s.hosts << "x" << s.per_host << "/" << s.fan_out;
}

class CombinedJob {
 public:
  using Record = wire::Combiner::Record;

  // `in_step`: all ranks announce all tensors before anybody reads, round by round, host after host, and the cache is
  // large.
  CombinedJob(CombinedShape shape, unsigned seed, bool in_step = false)
      : shape_(shape), in_step_(in_step), random_(seed), up_(static_cast<std::size_t>(shape.hosts)) {
    Settings settings = settings_for(size());
    settings.cache_capacity = in_step ? 64 : 3;
    settings.outstanding = in_step ? 64 : 2;
    std::vector<std::int32_t> all;
    for (int r = 0; r < size(); ++r) all.push_back(r);
    for (int r = 0; r < size(); ++r) ranks_.push_back({Negotiator(settings, r), Diary(), plan(r), {}, {}, 0, 0, 0});
    for (int host = 0; host < shape.hosts; ++host) {
      places_.push_back(topology::place_of(host, shape.hosts, shape.fan_out));
      wire::RankRanges below;
      below.add(host * shape.per_host, places_.back().end * shape.per_host - 1);
      combiners_.emplace_back(std::move(below), settings.cache_capacity);
      combiners_.back().set_added(0, all);
    }
  }

  // False when nothing moves any more although somebody waits.
  bool run() {
    for (int idle = 0; !is_done(); idle = step() ? 0 : idle + 1) {
      if (idle == 20) now_ += wire::Combiner::kHold;
      if (idle > 60) return false;
    }
    return true;
  }

  bool diaries_are_equal() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [&](const Rank& r) { return r.diary.lines == ranks_[0].diary.lines; });
  }
  std::map<std::string, int> launched() const {
    std::map<std::string, int> counts;
    for (const Launch& launch : ranks_[0].diary.launches) {
      for (const auto& tensor : launch.tensors) ++counts[tensor->name];
    }
    return counts;
  }
  std::map<std::string, int> expected() const {
    std::map<std::string, int> counts;
    for (int t = 0; t < kTensors; ++t) counts[name_of(t)] = kRounds;
    return counts;
  }
  int log_records_of_last_round() const { return static_cast<int>(log_.size() - round_began_); }
  // Between hosts, sent and received; said and heard by all, the log's among them.
  int messages_of_last_round() const { return 2 * (went_up_ + log_records_of_last_round() * (shape_.hosts - 1)); }
  int records_of_last_round() const { return said_ + went_up_ + log_records_of_last_round() * size(); }

 private:
  static constexpr int kTensors = 6, kRounds = 4;

  struct Rank {
    Negotiator negotiator;
    Diary diary;
    std::vector<std::string> plan;      // what is still to be announced, last first
    std::map<int, std::string> by_bit;  // announced so, in a round that is not over
    std::map<std::string, int> flying;  // announced and not launched
    std::size_t read;                   // of the log
    std::size_t launches_seen;
    std::uint64_t finished;  // in step: said with the next announcements
  };

  int size() const { return shape_.hosts * shape_.per_host; }
  static std::string name_of(int tensor) { return std::string(1, static_cast<char>('a' + tensor)); }
  bool chance() { return in_step_ || random_() % 2 == 0; }

  std::vector<std::string> plan(int) {
    std::vector<std::string> names;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<std::string> some;
      for (int t = 0; t < kTensors; ++t) some.push_back(name_of(t));
      if (!in_step_) std::shuffle(some.begin(), some.end(), random_);
      names.insert(names.begin(), some.begin(), some.end());
    }
    return names;
  }

  bool is_done() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [&](const Rank& r) { return r.plan.empty() && r.flying.empty() && r.read == log_.size(); });
  }

  // One turn of everybody, each with a chance to sleep through it.
  bool step() {
    bool moved = false;
    for (int r = 0; r < size(); ++r) {
      if (chance()) moved = announce(r) || moved;
      if (!in_step_ || (r + 1) % shape_.per_host != 0) continue;
      now_ += std::chrono::microseconds(500);
      carry_all();
    }
    moved = carry_all() || moved;
    for (int r = 0; r < size(); ++r) {
      if (chance()) moved = read(r) || moved;
    }
    return moved;
  }

  bool carry_all() {
    bool moved = false;
    for (int host = shape_.hosts - 1; host >= 0; --host) {
      if (chance()) moved = carry(host) || moved;
    }
    return moved;
  }

  bool announce(int r) {
    Rank& rank = ranks_[at(r)];
    const bool round_is_over = rank.plan.size() % kTensors == 0 && !rank.flying.empty();
    if (rank.plan.empty() || (in_step_ && round_is_over)) return false;
    if (in_step_ && r == 0) {
      round_began_ = log_.size();
      said_ = went_up_ = 0;
    }
    wire::RecordWriter writer;
    writer.begin(r, rank.negotiator.applied());
    std::vector<std::uint64_t> words(1);
    bool any = false;
    const int most = in_step_ ? kTensors : 1 + static_cast<int>(random_() % 3);
    for (int i = 0; i < most && !rank.plan.empty() && rank.flying.count(rank.plan.back()) == 0; ++i) {
      const std::string name = rank.plan.back();
      rank.plan.pop_back();
      ++rank.flying[name];
      any = true;
      const Request request = make_request(r, name);
      const int bit = rank.negotiator.cached_bit(request);
      if (bit < 0 || rank.by_bit.count(bit) != 0) {
        writer.request(request);
        continue;
      }
      words[0] |= std::uint64_t{1} << bit;
      rank.by_bit[bit] = name;
    }
    if (!any) return false;
    if (words[0] != 0) writer.bits(0, 0, words);
    if (rank.finished > 0) writer.number(wire::Item::kFinished, 0, rank.finished);
    say(r, writer.end());
    return true;
  }

  void say(int r, std::span<const std::byte> record) {
    combiners_[at(r / shape_.per_host)].take(record, now_);
    said_ += r % shape_.per_host == 0 ? 1 : 2;  // a leader hears the others of its host
  }

  bool carry(int host) {
    for (auto& record : up_[at(host)]) combiners_[at(host)].take(record, now_);
    bool moved = !up_[at(host)].empty();
    up_[at(host)].clear();
    for (Record record; combiners_[at(host)].next(now_, &record); moved = true) {
      if (host == 0) {
        log_.push_back(record);
      } else {
        up_[at(places_[at(host)].parent)].push_back(record);
        ++went_up_;
      }
    }
    return moved;
  }

  bool read(int r) {
    Rank& rank = ranks_[at(r)];
    if (rank.read == log_.size()) return false;
    Listener listener(this, r);
    const Status status = rank.negotiator.apply(log_[rank.read++], &listener);
    EXPECT_TRUE(status.ok()) << status.message();
    if (r % shape_.per_host == 0) {
      combiners_[at(r / shape_.per_host)].want_finished(0, rank.negotiator.wants_finished(0));
    }
    wire::RecordWriter writer;
    writer.begin(r, rank.negotiator.applied());
    bool any = false;
    for (const int bit : rank.diary.again) {
      if (rank.by_bit.count(bit) == 0) continue;
      writer.request(make_request(r, rank.by_bit[bit]));
      rank.by_bit.erase(bit);
      any = true;
    }
    for (const int bit : rank.diary.freed) rank.by_bit.erase(bit);
    rank.diary.again.clear();
    rank.diary.freed.clear();
    for (; rank.launches_seen < rank.diary.launches.size(); ++rank.launches_seen) {
      const Launch& launch = rank.diary.launches[rank.launches_seen];
      for (const auto& tensor : launch.tensors) {
        rank.flying.erase(tensor->name);
        std::erase_if(rank.by_bit, [&](const auto& entry) { return entry.second == tensor->name; });
      }
      writer.number(wire::Item::kFinished, 0, launch.sequence);
      any = any || !in_step_;
      if (in_step_) rank.finished = launch.sequence;
    }
    if (any) say(r, writer.end());
    return true;
  }

  // Tells a leader's combiner what its engine would.
  class Listener final : public Outcome {
   public:
    Listener(CombinedJob* job, int rank) : diary_(job->ranks_[at(rank)].diary) {
      if (rank % job->shape_.per_host == 0) combiner_ = &job->combiners_[at(rank / job->shape_.per_host)];
    }
    void launch(Launch& l) override { diary_.launch(l); }
    void refuse(std::int32_t set, const std::string& name, const Status& error) override {
      diary_.refuse(set, name, error);
    }
    void announce_again(std::int32_t set, int bit) override { diary_.announce_again(set, bit); }
    void bit_freed(std::int32_t set, int bit) override { diary_.bit_freed(set, bit); }
    void round_over(std::int32_t set, int bit) override {
      if (combiner_ != nullptr) combiner_->round_over(set, bit);
    }
    void disputed(std::int32_t set, int bit) override {
      if (combiner_ != nullptr) combiner_->disputed(set, bit);
    }
    void join_done(std::int32_t set, std::int32_t last) override { diary_.join_done(set, last); }
    void set_added(std::int32_t id, const std::vector<std::int32_t>& ranks) override { diary_.set_added(id, ranks); }
    void set_removed(std::int32_t id) override { diary_.set_removed(id); }
    void shutdown(std::int32_t rank, const std::string& how) override { diary_.shutdown(rank, how); }
    void all_drained() override { diary_.all_drained(); }

   private:
    Diary& diary_;
    wire::Combiner* combiner_ = nullptr;
  };

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  CombinedShape shape_;
  bool in_step_;
  std::mt19937 random_;
  std::deque<Rank> ranks_;
  std::vector<topology::HostPlace> places_;
  std::deque<wire::Combiner> combiners_;
  std::vector<std::vector<Record>> up_;  // by host: what its children sent
  std::vector<Record> log_;
  std::size_t round_began_ = 0;
  int said_ = 0, went_up_ = 0;  // since then
  wire::Combiner::Clock::time_point now_{};
};

}  // namespace roda::negotiate
