#include "tests/seeds/world.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/engine/environment.h"
#include "plugins/base/format.h"
#include "plugins/base/hash.h"

namespace roda::seeds {
namespace {

using control::ControlPlane;
using engine::Engine;

// One store for all ranks, each of which owns its own.
class SharedStore final : public LocalStore {
 public:
  explicit SharedStore(SharedStore* all = nullptr) : all_(all == nullptr ? this : all) {}

 protected:
  Status tell(StoreOp op, const std::string& key, std::string_view value, int rank) override {
    return all_->LocalStore::tell(op, key, value, rank);
  }
  Status ask(const Question& question, std::optional<Deadline> deadline, std::string* answer, bool* found) override {
    return all_->LocalStore::ask(question, deadline, answer, found);
  }

 private:
  SharedStore* all_;
};

constexpr std::uint64_t kMostStepsWithoutEvent = 200'000;

// One rank: its engine, and a program that submits the job's calls.
struct Rank {
  std::unique_ptr<Engine> engine;
  ControlPlane* control = nullptr;  // the engine's
  bool is_alive = true;
  bool is_ending = false;
  std::vector<std::size_t> left;  // calls that it has not submitted, in order
  struct Pending {
    std::uint64_t handle;
    engine::HandleState* state;
    std::unique_ptr<Flight> flight;
  };
  std::vector<Pending> pending;
  std::size_t weight = 4;  // of a slow rank it is less: it moves less often

  bool is_through() const { return left.empty() && pending.empty(); }
};

class World {
 public:
  World(std::uint64_t seed, bool tells) : seed_(seed), draw_(seed), tells_(tells) {
    const int ranks = 2 + static_cast<int>(draw_below(draw_, 4));
    hosts_ = draw_one_in(draw_, 2) ? 1 : 1 + draw_below(draw_, 3);
    job_ = draw_job(draw_, ranks, 5 + draw_below(draw_, 40));
    if (draw_one_in(draw_, 2)) {
      victim_ = static_cast<int>(draw_below(draw_, static_cast<std::size_t>(ranks)));
      death_ = draw_below(draw_, 100 * static_cast<std::size_t>(ranks));
    }
    form();
  }

  Outcome run() {
    while (outcome_.wrong.empty() && !is_over()) {
      const std::size_t at = draw_rank();
      Rank& rank = ranks_[at];
      if (victim_ && outcome_.steps >= death_ && ranks_[static_cast<std::size_t>(*victim_)].is_alive) kill();
      ++outcome_.steps;
      if (!rank.is_alive) continue;
      if (draw_one_in(draw_, 3) && submit(at)) continue;
      rank.engine->step();
      collect(at);
      if (is_through() && !rank.is_ending && !rank.engine->has_ended()) {
        rank.is_ending = true;
        rank.engine->ask_for_shutdown("called hvd.shutdown()");
      }
      if (++quiet_ > kMostStepsWithoutEvent) fail("nothing happens any more: " + who_waits());
    }
    end();
    outcome_.trace = trace_.value();
    return outcome_;
  }

 private:
  void note(std::size_t rank, const std::string& what) {
    quiet_ = 0;
    trace_.add(outcome_.steps);
    trace_.add(static_cast<std::uint64_t>(rank));
    trace_.add(std::string_view(what));
    if (tells_) std::printf("%8llu rank %zu %s\n", static_cast<unsigned long long>(outcome_.steps), rank, what.c_str());
  }
  void fail(const std::string& how) {
    if (outcome_.wrong.empty()) outcome_.wrong = how;
  }

  // The ranks meet as threads; nothing of that is drawn.
  void form();
  Knobs knobs() const;

  std::size_t draw_rank() {
    std::size_t sum = 0;
    for (const Rank& rank : ranks_) sum += rank.weight;
    std::size_t at = draw_below(draw_, sum);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (at < ranks_[i].weight) return i;
      at -= ranks_[i].weight;
    }
    return 0;
  }

  void kill() {
    Rank& rank = ranks_[static_cast<std::size_t>(*victim_)];
    rank.is_alive = false;
    rank.control->vanish();
    outcome_.victim = victim_;
    note(static_cast<std::size_t>(*victim_), "dies");
  }

  // One of the next few calls whose name is free here.
  bool submit(std::size_t at) {
    Rank& rank = ranks_[at];
    std::vector<std::size_t> choices;
    std::vector<std::string> taken;
    for (const Rank::Pending& pending : rank.pending) taken.push_back(pending.flight->call().name);
    for (std::size_t i = 0; i < rank.left.size() && choices.size() < 4; ++i) {
      const std::string& name = job_.calls[rank.left[i]].name;
      if (std::ranges::find(taken, name) == taken.end()) choices.push_back(i);
      taken.push_back(name);
    }
    if (choices.empty()) return false;
    const std::size_t chosen = choices[draw_below(draw_, choices.size())];
    const Call& call = job_.calls[rank.left[chosen]];
    auto flight = std::make_unique<Flight>(call, static_cast<int>(at));
    std::uint64_t handle = 0;
    engine::HandleState* state = handles_.create(call.tensors, &handle);
    flight->fill(state->operations);
    const Status status = rank.engine->submit(state, draw_one_in(draw_, 2));
    if (!status.ok()) {
      handles_.release(handle);
      ended(at, call.name, status);
      rank.left.clear();
      return true;
    }
    rank.left.erase(rank.left.begin() + static_cast<std::ptrdiff_t>(chosen));
    note(at, "submits " + call.name);
    rank.pending.push_back({handle, state, std::move(flight)});
    return true;
  }

  void collect(std::size_t at) {
    Rank& rank = ranks_[at];
    for (auto pending = rank.pending.begin(); pending != rank.pending.end();) {
      if (!pending->state->done()) {
        ++pending;
        continue;
      }
      const std::string& name = pending->flight->call().name;
      if (const Status& error = pending->state->first_error; !error.ok()) {
        ended(at, name, error);
        rank.left.clear();
      } else {
        if (const std::string wrong = pending->flight->check(pending->state->operations); !wrong.empty()) {
          fail(roda::format("rank {}: {}", at, wrong));
        }
        ++outcome_.calls;
        note(at, "has " + name);
      }
      handles_.release(pending->handle);
      pending = rank.pending.erase(pending);
    }
  }

  // An operation of a survivor fails for one cause alone.
  void ended(std::size_t at, const std::string& name, const Status& error) {
    note(at, "fails " + name);
    // Other hosts see the end of a host's leader as that of a link.
    const std::string name_of_victim = roda::format("ank {} (", outcome_.victim.value_or(-1));
    const bool is_told = outcome_.victim && error.rank() == *outcome_.victim &&
                         error.message().find(name_of_victim) != std::string::npos;
    if (!is_told) fail(roda::format("rank {}: {} ends with: {}", at, name, error.message()));
  }

  bool is_through() const {
    return std::ranges::all_of(ranks_, [](const Rank& rank) { return !rank.is_alive || rank.is_through(); });
  }
  bool is_over() const {
    return std::ranges::all_of(ranks_, [](const Rank& rank) { return !rank.is_alive || rank.engine->has_ended(); });
  }

  std::string who_waits() const {
    std::string text;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (!ranks_[i].is_alive) continue;
      text += roda::format("rank {} has {} to submit and waits for", i, ranks_[i].left.size());
      for (const Rank::Pending& pending : ranks_[i].pending) text += " '" + pending.flight->call().name + "'";
      text += ranks_[i].engine->has_ended() ? " (ended); " : "; ";
    }
    return text;
  }

  // Frees the engines: those of the dead, and all after something went wrong, have to end first.
  void end() {
    for (Rank& rank : ranks_) {
      if (!rank.engine->has_ended()) rank.control->abort(Status::unknown("the seed's end"));
      for (int turn = 0; !rank.engine->has_ended() && turn < 1000; ++turn) rank.engine->step();
      if (!rank.engine->has_ended()) fail("an engine does not end");
    }
    for (Rank& rank : ranks_) {
      for (const Rank::Pending& pending : rank.pending) handles_.release(pending.handle);
    }
  }

  const std::uint64_t seed_;
  Draw draw_;
  const bool tells_;
  Job job_;
  std::size_t hosts_ = 1;
  SharedStore store_;
  engine::HandleTable handles_;
  std::vector<Rank> ranks_;
  std::optional<int> victim_;
  std::uint64_t death_ = 0;
  std::uint64_t quiet_ = 0;
  Hash trace_;
  Outcome outcome_;
};

Knobs World::knobs() const {
  const std::map<std::string, std::string> settings = {
      {"HOROVOD_CPU_OPERATIONS", hosts_ > 1 ? "loop+tcp" : "loop"},
      {"HOROVOD_CACHE_CAPACITY", std::array{"0", "2", "1024"}[seed_ % 3]},
      {"HOROVOD_FUSION_THRESHOLD", std::array{"0", "4096"}[seed_ / 3 % 2]}};
  Status status;
  const auto get = [&](const char* name) -> const char* {
    const auto found = settings.find(name);
    return found == settings.end() ? nullptr : found->second.c_str();
  };
  return Knobs::from_environment(get, &status);
}

void World::form() {
  const auto size = static_cast<std::size_t>(job_.ranks);
  std::vector<engine::Parts> parts(size);
  Topology topology;
  const std::size_t hosts = std::min(hosts_, size);
  for (std::size_t host = 0; host < hosts; ++host) {
    topology.hosts.push_back({"host" + std::to_string(host), "", 0, {}});
    for (std::size_t rank = size * host / hosts; rank < size * (host + 1) / hosts; ++rank) {
      topology.hosts.back().ranks.push_back(static_cast<int>(rank));
    }
  }
  place_ranks(&topology);
  const std::string key = "seed";
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < size; ++rank) {
    engine::Parts& own = parts[rank];
    own.knobs = knobs();
    own.topology = topology;
    own.rank = static_cast<int>(rank);
    threads.emplace_back([&own, &key, this] {
      const std::array<std::uint8_t, 16> secret{};
      const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      const Status status = ControlPlane::connect(
          store_, own.topology, own.rank, {key, "127.0.0.1", own.topology.host_of(own.rank).name, Secret(secret), soon},
          &own.control);
      if (!status.ok()) throw std::runtime_error(status.message());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t rank = 0; rank < size; ++rank) {
    engine::Parts& own = parts[rank];
    own.store = std::make_unique<SharedStore>(&store_);
    Status status = engine::Environment::get().make_planner(own.knobs, {}, &own.planner);
    if (status.ok()) status = engine::Bells::open(&own.bells);
    if (!status.ok()) throw std::runtime_error(status.message());
    own.host = engine::Environment::get().host();
    own.static_sets = job_.sets;
    own.address = "127.0.0.1";
    own.job_key = key;
    own.handles = &handles_;
    own.has_thread = false;
    Rank& made = ranks_.emplace_back();
    made.control = own.control.get();
    made.engine = std::make_unique<Engine>(std::move(own));
    made.weight = draw_one_in(draw_, 4) ? 1 : 4;
    for (std::size_t i = 0; i < job_.calls.size(); ++i) {
      if (job_.calls[i].has_member(static_cast<int>(rank))) made.left.push_back(i);
    }
  }
}

}  // namespace

Outcome play(std::uint64_t seed, bool tells) { return World(seed, tells).run(); }

}  // namespace roda::seeds
