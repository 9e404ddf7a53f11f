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
#include "tests/seeds/machine.h"

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

// All survivors are told of a death within this time: far less than any net under a missed wake-up takes.
constexpr auto kTold = std::chrono::milliseconds(300);
// Nothing at all happens for so long.
constexpr auto kQuiet = std::chrono::seconds(100);
constexpr std::uint64_t kMostStepsToBury = 300'000;

// One rank: its engine, and a program that submits the job's calls.
struct Rank {
  std::unique_ptr<Engine> engine;
  ControlPlane* control = nullptr;  // the engine's
  bool is_alive = true;
  bool is_done = false;           // with all calls
  bool is_through = false;        // its program has ended
  std::vector<std::size_t> left;  // calls that it has not submitted, in order
  struct Pending {
    std::size_t call;
    std::uint64_t handle;
    engine::HandleState* state;
    std::unique_ptr<Flight> flight;
  };
  std::vector<Pending> pending;
};

class World {
 public:
  World(std::uint64_t seed, bool tells) : seed_(seed), tells_(tells), machine_(seed) {
    Draw draw(seed);
    const int ranks = 2 + static_cast<int>(draw_below(draw, 4));
    hosts_ = draw_one_in(draw, 2) ? 1 : 1 + draw_below(draw, 3);
    job_ = draw_job(draw, ranks, 5 + draw_below(draw, 40));
    if (draw_one_in(draw, 2)) {
      victim_ = static_cast<int>(draw_below(draw, static_cast<std::size_t>(ranks)));
      death_ = draw_below(draw, 400 * static_cast<std::size_t>(ranks));
    }
    lay_out();
    ranks_.resize(static_cast<std::size_t>(ranks));
    for (std::size_t at = 0; at < ranks_.size(); ++at) {
      for (std::size_t i = 0; i < job_.calls.size(); ++i) {
        if (job_.calls[i].has_member(static_cast<int>(at))) ranks_[at].left.push_back(i);
      }
      machine_.set_weight(static_cast<int>(at), draw_one_in(draw, 4) ? 1 : 4);
      machine_.start(static_cast<int>(at), [this, at] { live(at); });
    }
  }

  Outcome run() {
    while (outcome_.wrong.empty()) {
      if (machine_.step()) {
        look();
      } else if (!machine_.all_asleep()) {
        break;
      } else if (outcome_.victim) {
        machine_.fall_into_net();
      } else {
        fail("all sleep, and work is left: " + who_waits());
      }
    }
    end();
    outcome_.steps = machine_.steps();
    outcome_.trace = trace_.value();
    return outcome_;
  }

 private:
  void note(std::size_t rank, const std::string& what) {
    quiet_since_ = machine_.time();
    trace_.add(machine_.steps());
    trace_.add(static_cast<std::uint64_t>(rank));
    trace_.add(std::string_view(what));
    if (tells_) std::printf("%12.3f ms rank %zu %s\n", milliseconds_of(machine_.time()), rank, what.c_str());
  }
  void fail(const std::string& how) {
    if (outcome_.wrong.empty()) outcome_.wrong = how;
  }
  double milliseconds_of(Time time) const { return std::chrono::duration<double, std::milli>(time - kBoot).count(); }

  // After each step.
  void look() {
    if (victim_ && !outcome_.victim && formed_ == ranks_.size() && ++steps_formed_ >= death_) kill();
    if (outcome_.victim && machine_.time() > died_ + kTold && !is_over()) {
      fail("after a rank's death not all have ended in time: " + who_waits());
    }
    if (machine_.time() > quiet_since_ + kQuiet) fail("nothing happens any more: " + who_waits());
  }

  void lay_out();
  Knobs knobs() const;

  // --- a rank's program, on a fiber of its own ---
  void live(std::size_t at) {
    Rank& rank = ranks_[at];
    form(at);
    ++formed_;
    note(at, "has started");
    while (!rank.left.empty() || !rank.pending.empty()) {
      collect(at);
      if (draw_one_in(machine_.draw(), 10)) nap();
      if (!submit(at)) wait(at);
    }
    rank.is_done = true;
    if (all_done()) machine_.ring(&formed_, SIZE_MAX);
    while (!all_done() && !machine_.is_burying()) machine_.sleep({}, &formed_, Time::max(), true);
    rank.engine->shutdown("called hvd.shutdown()");
    note(at, "has shut down");
    rank.engine.reset();
    rank.is_through = true;
  }

  void form(std::size_t at);

  void nap() { std::this_thread::sleep_for(std::chrono::microseconds(1 + draw_below(machine_.draw(), 3000))); }

  void wait(std::size_t at) {
    Rank& rank = ranks_[at];
    if (rank.pending.empty()) return;
    const bool is_limited = !may_wait(rank) || draw_one_in(machine_.draw(), 4);
    const auto limit = is_limited ? static_cast<std::int64_t>(draw_below(machine_.draw(), 5000)) : -1;
    rank.engine->wait(rank.pending.front().state, limit);
  }
  // A wait without a limit is for the first call, and only where all before it are submitted, so that programs do not
  // wait for each other in a ring.
  static bool may_wait(const Rank& rank) { return rank.left.empty() || rank.pending.front().call < rank.left.front(); }

  void kill() {
    Rank& rank = ranks_[static_cast<std::size_t>(*victim_)];
    if (rank.is_through) return;
    rank.is_alive = false;
    machine_.kill(*victim_);
    outcome_.victim = victim_;
    died_ = machine_.time();
    note(static_cast<std::size_t>(*victim_), "dies");
    if (all_done()) machine_.ring(&formed_, SIZE_MAX);
  }

  // One of the next few calls whose name is free here. False: it is time to wait.
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
    if (choices.empty() || (!rank.pending.empty() && draw_one_in(machine_.draw(), 3))) return false;
    const std::size_t chosen = choices[draw_below(machine_.draw(), choices.size())];
    const std::size_t number = rank.left[chosen];
    const Call& call = job_.calls[number];
    auto flight = std::make_unique<Flight>(call, static_cast<int>(at));
    std::uint64_t handle = 0;
    engine::HandleState* state = handles_.create(call.tensors, &handle);
    flight->fill(state->operations);
    rank.left.erase(rank.left.begin() + static_cast<std::ptrdiff_t>(chosen));
    note(at, "submits " + call.name);
    const Status status = rank.engine->submit(state, draw_one_in(machine_.draw(), 2));
    if (!status.ok()) {
      handles_.release(handle);
      ended(at, call.name, status);
      rank.left.clear();
      return true;
    }
    const auto before = std::ranges::find_if(rank.pending, [&](const auto& other) { return other.call > number; });
    rank.pending.insert(before, {number, handle, state, std::move(flight)});
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
    if (machine_.is_burying()) return;
    // Other hosts see the end of a host's leader as that of a link.
    const std::string name_of_victim = roda::format("ank {} (", outcome_.victim.value_or(-1));
    const bool is_told = outcome_.victim && error.rank() == *outcome_.victim &&
                         error.message().find(name_of_victim) != std::string::npos;
    if (!is_told) fail(roda::format("rank {}: {} ends with: {}", at, name, error.message()));
  }

  bool all_done() const {
    return std::ranges::all_of(ranks_, [](const Rank& rank) { return !rank.is_alive || rank.is_done; });
  }
  bool is_over() const {
    return std::ranges::all_of(ranks_, [](const Rank& rank) { return !rank.is_alive || rank.is_through; });
  }

  std::string who_waits() const {
    std::string text;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (!ranks_[i].is_alive || ranks_[i].is_through) continue;
      text += roda::format("rank {} on {} has {} to submit and waits for", i,
                           topology_.host_of(static_cast<int>(i)).name, ranks_[i].left.size());
      for (const Rank::Pending& pending : ranks_[i].pending) text += " '" + pending.flight->call().name + "'";
      text += ranks_[i].pending.empty() && ranks_[i].left.empty() ? " the end; " : "; ";
    }
    return text;
  }

  // Lets the programs of the dead, and all after something went wrong, come to their end.
  void end() {
    for (Rank& rank : ranks_) {
      if (rank.engine != nullptr) rank.control->abort(Status::unknown("the seed's end"));
    }
    machine_.bury();
    for (std::uint64_t step = 0; machine_.step();) {
      if (++step < kMostStepsToBury) continue;
      fail("an engine does not end");
      return;
    }
  }

  static constexpr Time kBoot = std::chrono::hours(1);
  const std::uint64_t seed_;
  const bool tells_;
  Job job_;
  std::size_t hosts_ = 1;
  Topology topology_;
  SharedStore store_;
  engine::HandleTable handles_;
  Machine machine_;
  std::vector<Rank> ranks_;
  std::size_t formed_ = 0;
  std::uint64_t steps_formed_ = 0;
  std::optional<int> victim_;
  std::uint64_t death_ = 0;
  Time died_{}, quiet_since_{kBoot};
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

void World::lay_out() {
  const auto size = static_cast<std::size_t>(job_.ranks);
  const std::size_t hosts = std::min(hosts_, size);
  for (std::size_t host = 0; host < hosts; ++host) {
    topology_.hosts.push_back({"host" + std::to_string(host), "", 0, {}});
    for (std::size_t rank = size * host / hosts; rank < size * (host + 1) / hosts; ++rank) {
      topology_.hosts.back().ranks.push_back(static_cast<int>(rank));
    }
  }
  place_ranks(&topology_);
}

void World::form(std::size_t at) {
  engine::Parts own;
  own.knobs = knobs();
  own.topology = topology_;
  own.rank = static_cast<int>(at);
  own.job_key = "seed";
  own.address = "127.0.0.1";
  const std::array<std::uint8_t, 16> secret{};
  const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  Status status = ControlPlane::connect(
      store_, topology_, own.rank, {own.job_key, own.address, topology_.host_of(own.rank).name, Secret(secret), soon},
      &own.control);
  own.store = std::make_unique<SharedStore>(&store_);
  if (status.ok()) status = engine::Environment::get().make_planner(own.knobs, {}, &own.planner);
  if (status.ok()) status = engine::Bells::open(&own.bells);
  if (!status.ok()) throw std::runtime_error(status.message());
  own.host = engine::Environment::get().host();
  own.static_sets = job_.sets;
  own.handles = &handles_;
  own.has_core_each = seed_ % 4 == 0;
  ranks_[at].control = own.control.get();
  ranks_[at].engine = std::make_unique<Engine>(std::move(own));
}

}  // namespace

Outcome play(std::uint64_t seed, bool tells) {
  engine::Environment::get();
  return World(seed, tells).run();
}

}  // namespace roda::seeds
