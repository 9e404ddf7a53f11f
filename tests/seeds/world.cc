#include "tests/seeds/world.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/engine/environment.h"
#include "plugins/base/format.h"
#include "plugins/base/hash.h"
#include "tests/seeds/blame.h"
#include "tests/seeds/faults.h"
#include "tests/seeds/machine.h"
#include "tests/seeds/rank.h"
#include "tests/seeds/settings.h"
#include "tests/seeds/start.h"

namespace roda::seeds {
namespace {

using engine::Engine;

// All survivors are told of a death within this time: far less than any net under a missed wake-up takes.
constexpr auto kTold = std::chrono::milliseconds(300);
constexpr auto kQuiet = std::chrono::seconds(200);  // in which nothing at all happens
constexpr std::uint64_t kMostSteps = 6'000'000, kMostStepsToBury = 300'000;

class World;
struct Listener {  // of a rank whose handles' ends are told
  World* world;
  std::size_t at;
};

class World {
 public:
  explicit World(const Play& what)
      : seed_(what.seed), tells_(what.tells), machine_(what.seed + what.schedule * 0x9e3779b97f4a7c15u) {
    Draw draw(what.seed);
    hosts_ = draw_world(draw, what, &job_);
    if (what.has_faults) faults_ = draw_faults(draw, job_.ranks, hosts_);
    outcome_.ranks = job_.ranks;
    outcome_.hosts = hosts_;
    outcome_.job_calls = job_.calls.size();
    topology_ = lay_out(job_.ranks, hosts_);
    ranks_.resize(static_cast<std::size_t>(job_.ranks));
    for (std::size_t at = 0; at < ranks_.size(); ++at) {
      listeners_.push_back({this, at});
      for (std::size_t i = 0; i < job_.calls.size(); ++i) {
        if (job_.calls[i].has_member(static_cast<int>(at))) ranks_[at].left.push_back(i);
      }
      machine_.set_weight(static_cast<int>(at), draw_one_in(draw, 4) ? 1 : 4);
      machine_.start(static_cast<int>(at), [this, at] { live(at); });
    }
    machine_.start(job_.ranks, [this] { serve(); });
  }

  Outcome run() {
    while (outcome_.wrong.empty()) {
      if (machine_.step()) {
        look();
      } else if (!machine_.all_asleep()) {
        break;
      } else if (!blame_.is_none()) {
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
    if (tells_ && outcome_.wrong.empty())
      std::printf("%12.3f ms rank %zu %s\n", std::chrono::duration<double, std::milli>(machine_.time() - kBoot).count(),
                  rank, what.c_str());
  }
  void fail(const std::string& how) {
    if (outcome_.wrong.empty()) outcome_.wrong = how;
  }

  void look() {
    steps_formed_ += formed_ == ranks_.size() ? 1 : 0;
    const auto is_due = [this](const Fault& f) {
      return f.is_early ? f.at <= machine_.steps() : steps_formed_ > 0 && f.at <= steps_formed_;
    };
    for (std::size_t i = 0; i < faults_.size(); ++i) {
      if (is_due(faults_[i])) begin(faults_[i]);
    }
    std::erase_if(faults_, is_due);
    if (blame_.is_late(machine_.time()) && !are_told()) fail("not all are told in time: " + who_waits());
    if (machine_.time() > quiet_since_ + kQuiet) fail("nothing happens any more: " + who_waits());
    if (machine_.steps() > kMostSteps) fail("no end of it: " + who_waits());
  }

  void begin(const Fault& fault) {
    switch (fault.kind) {
      case Fault::Kind::kDeath:
        return kill(static_cast<std::size_t>(fault.which));
      case Fault::Kind::kHostLost:
        for (const int rank : topology_.hosts[static_cast<std::size_t>(fault.which)].ranks) {
          kill(static_cast<std::size_t>(rank));
        }
        return;
      case Fault::Kind::kStoreLost:
        if (!rendezvous_.has_begun()) return;
        machine_.kill(job_.ranks);
        note(ranks_.size(), "is the store, and lost");
        return lose(true);
      case Fault::Kind::kPause:
      case Fault::Kind::kStop:
        return stop(fault);
      case Fault::Kind::kRaise:
        ranks_[static_cast<std::size_t>(fault.which)].raises = true;
        return;
      case Fault::Kind::kBreak:
        for (const int rank : machine_.network().break_one()) {
          note(static_cast<std::size_t>(rank), "loses a connection");
          lose(rank == job_.ranks);
        }
    }
  }

  void lose(bool is_store) {
    if (is_store) blame_.lose_store();
    blame_.add_any(job_.ranks);
    ++outcome_.faults;
  }

  void kill(std::size_t at) {
    Rank& rank = ranks_[at];
    if (rank.is_through || !rank.is_alive) return;
    rank.is_alive = false;
    machine_.kill(static_cast<int>(at));
    blame_.add(static_cast<int>(at));
    ++outcome_.faults;
    blame_.tell_in(machine_.time(), formed_ == ranks_.size() ? kTold : kGivenUp);
    note(at, "dies");
    if (all_done()) machine_.ring(&formed_, SIZE_MAX);
  }

  void stop(const Fault& fault) {
    const auto at = static_cast<std::size_t>(fault.which);
    if (ranks_[at].is_through || !ranks_[at].is_alive) return;
    machine_.stop(fault.which, machine_.time() + fault.time);
    note(at, "stops for " + std::to_string(fault.time.count()) + " ms");
    if (fault.kind == Fault::Kind::kPause) {
      return blame_.pause(machine_.time() + fault.time);
    }
    blame_.add(fault.which);
    ++outcome_.faults;
    if (!ranks_[at].is_done) blame_.tell_in(machine_.time(), kGivenUp);
  }

  // --- a rank's program, on a fiber of its own ---
  void live(std::size_t at) {
    Rank& rank = ranks_[at];
    if (!form(at)) return leave(at);
    ++formed_;
    note(at, "has started");
    while (!rank.left.empty() || !rank.pending.empty()) {
      collect(at);
      if (std::exchange(rank.raises, false)) give_up(at);
      if (draw_one_in(machine_.draw(), 10)) nap();
      if (!submit(at)) wait(at);
    }
    rank.is_done = true;
    if (all_done()) machine_.ring(&formed_, SIZE_MAX);
    while (!all_done() && !machine_.is_burying()) machine_.sleep({}, &formed_, Time::max(), true);
    if (at == 0) rest();
    rank.engine->shutdown("called hvd.shutdown()");
    note(at, "has shut down");
    rank.engine.reset();
    leave(at);
  }

  void leave(std::size_t at) {
    ranks_[at].is_done = ranks_[at].is_through = true;
    machine_.ring(&formed_, SIZE_MAX);
  }

  // Engines that have nothing to do sleep; one that spins takes 50,000 steps meanwhile.
  void rest() {
    const std::uint64_t most = machine_.steps() + 20'000;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (machine_.steps() > most && blame_.is_none()) fail("idle engines do not sleep");
  }

  bool form(std::size_t at);
  void serve() {
    rendezvous_.serve(machine_, &formed_, [this] {
      return std::ranges::all_of(ranks_, [](const Rank& rank) { return !rank.is_alive || rank.is_through; });
    });
  }

  void give_up(std::size_t at) {
    blame_.add(static_cast<int>(at));
    ++outcome_.faults;
    blame_.tell_in(machine_.time(), kTold);
    note(at, "raises");
    ranks_[at].left.clear();
    ranks_[at].engine->abort("ended with ValueError: a seed's");
  }

  void nap() { std::this_thread::sleep_for(std::chrono::microseconds(1 + draw_below(machine_.draw(), 3000))); }

  void wait(std::size_t at) {
    Rank& rank = ranks_[at];
    if (rank.pending.empty()) return;
    if (rank.pending.front().is_called_back) {
      if (may_wait(rank)) machine_.sleep({}, &rank, Time::max(), true);
      return;
    }
    const bool is_limited = !may_wait(rank) || draw_one_in(machine_.draw(), 4);
    const auto limit = is_limited ? static_cast<std::int64_t>(draw_below(machine_.draw(), 5000)) : -1;
    if (!rank.engine->wait(rank.pending.front().state, limit) && limit < 0)
      fail(roda::format("rank {}: a wait without a limit ends before its handle", at));
  }
  // A wait without a limit is for the first call, and only where all before it are submitted, so that programs do not
  // wait for each other in a ring.
  static bool may_wait(const Rank& rank) { return rank.left.empty() || rank.pending.front().call < rank.left.front(); }

  // One of the next few calls whose name is free here. False: it is time to wait.
  bool submit(std::size_t at) {
    Rank& rank = ranks_[at];
    std::vector<std::size_t> choices;
    std::vector<std::string> taken;
    for (const Rank::Pending& pending : rank.pending) taken.push_back(pending.flight->call().name);
    for (std::size_t i = 0; i < rank.left.size() && choices.size() < 4; ++i) {
      if (job_.calls[rank.left[i]].is_fence()) {
        const bool may_be = rank.pending.empty() || job_.calls[rank.left[i]].adds_set;
        if (i == 0 && may_be) choices.push_back(i);
        break;
      }
      const std::string& name = job_.calls[rank.left[i]].name;
      if (std::ranges::find(taken, name) == taken.end()) choices.push_back(i);
      taken.push_back(name);
    }
    if (choices.empty() || (!rank.pending.empty() && draw_one_in(machine_.draw(), 3))) return false;
    const std::size_t chosen = choices[draw_below(machine_.draw(), choices.size())];
    const std::size_t number = rank.left[chosen];
    const Call& call = job_.calls[number];
    if (call.adds_set || call.removes_set) return change_set(at, number);
    auto flight = std::make_unique<Flight>(call, number, static_cast<int>(at));
    std::uint64_t handle = 0;
    engine::HandleState* state = handles_.create(call.tensors, &handle);
    flight->fill(number_of(rank, call.set), state->operations);
    rank.left.erase(rank.left.begin() + static_cast<std::ptrdiff_t>(chosen));
    note(at, "submits " + call.name);
    const Status status = rank.engine->submit(state, draw_one_in(machine_.draw(), 2));
    if (!status.ok()) {
      handles_.release(handle);
      ended(at, call, status);
      return true;
    }
    const auto before = std::ranges::find_if(rank.pending, [&](const auto& other) { return other.call > number; });
    const bool is_called_back = draw_one_in(machine_.draw(), 6);
    rank.pending.insert(before, {number, handle, state, std::move(flight), is_called_back});
    if (is_called_back && !rank.engine->then(state, {&World::called_back, &listeners_[at], handle})) {
      std::ranges::find(rank.pending, handle, &Rank::Pending::handle)->is_called_back = false;
    }
    return true;
  }

  static std::int32_t number_of(const Rank& rank, std::int32_t set) {
    const auto made = rank.made_sets.find(set);
    return made == rank.made_sets.end() ? set : made->second;
  }

  bool change_set(std::size_t at, std::size_t number) {
    Rank& rank = ranks_[at];
    const Call& call = job_.calls[number];
    rank.left.erase(rank.left.begin());
    note(at, call.text());
    std::int32_t& id = rank.made_sets[call.set];
    const Status status = call.adds_set ? rank.engine->add_set(call.set_ranks, &id) : rank.engine->remove_set(id);
    if (!status.ok()) {
      ended(at, call, status);
    } else {
      note(at, "has " + call.text());
      const std::int32_t agreed = set_numbers_.emplace(number, id).first->second;
      if (agreed != id) fail(roda::format("rank {}: its process set is {}, another rank's {}", at, id, agreed));
    }
    return true;
  }

  // Every rank is told the same rank of a join.
  void check_join(std::size_t at, std::size_t number, const Rank::Pending& pending) {
    const std::int32_t last = pending.state->operations.front().value;
    const std::int32_t agreed = last_joined_.emplace(number, last).first->second;
    if (agreed != last || last < 0 || last >= job_.ranks) {
      fail(roda::format("rank {} hears that rank {} joined last, another that rank {} did", at, last, agreed));
    }
  }

  static void called_back(void* context, std::uint64_t handle) {
    const auto& [world, at] = *static_cast<Listener*>(context);
    Rank& rank = world->ranks_[at];
    const auto pending = std::ranges::find(rank.pending, handle, &Rank::Pending::handle);
    world->finish(at, *pending);
    rank.pending.erase(pending);
    world->machine_.ring(&rank, 1);
  }

  void collect(std::size_t at) {
    Rank& rank = ranks_[at];
    for (auto pending = rank.pending.begin(); pending != rank.pending.end();) {
      if (pending->is_called_back || !pending->state->done()) {
        ++pending;
        continue;
      }
      finish(at, *pending);
      handles_.release(pending->handle);
      pending = rank.pending.erase(pending);
    }
  }

  void finish(std::size_t at, const Rank::Pending& pending) {
    const Call& call = pending.flight->call();
    if (const Status& error = pending.state->first_error; !error.ok()) return ended(at, call, error);
    if (call.collective == RODA_JOIN) check_join(at, pending.call, pending);
    if (const std::string wrong = pending.flight->check(pending.state->operations); !wrong.empty()) {
      fail(roda::format("rank {}: {}", at, wrong));
    }
    ++outcome_.calls;
    note(at, "has " + call.name);
  }

  // The operation fails for what was wrong with it, or a survivor's for one cause alone: the same on all of a host.
  void ended(std::size_t at, const Call& call, const Status& error) {
    note(at, "fails " + call.text());
    if (machine_.is_burying()) return;
    const std::string& text = error.message();
    const bool is_refused = call.odd >= 0 && text.starts_with("Mismatched");
    if (is_refused) {
      const bool is_named = text.find(roda::format("rank {}: ", call.odd)) != std::string::npos;
      if (!is_named) fail(roda::format("rank {}: {} does not name rank {}: {}", at, call.name, call.odd, text));
      return;
    }
    ranks_[at].left.clear();
    // Whoever finds the store lost tells the others.
    if (error.rank() < 0) blame_.tell_in(machine_.time(), kTold);
    const std::string wrong = blame_.judge(topology_.rank(static_cast<int>(at)).host, error);
    if (!wrong.empty()) fail(roda::format("rank {}: {} {}", at, call.name, wrong));
  }

  // Those that run, where others do not.
  bool are_told() const {
    for (std::size_t at = 0; at < ranks_.size(); ++at) {
      const Rank& rank = ranks_[at];
      const bool waits = rank.is_alive && !rank.is_done && !blame_.has(at);
      if (waits && !machine_.is_stopped(static_cast<int>(at))) return false;
    }
    return true;
  }

  bool all_done() const {
    return std::ranges::all_of(ranks_, [](const Rank& rank) { return !rank.is_alive || rank.is_done; });
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
    if (const std::size_t open = machine_.owned(); open != 0) fail(roda::format("{} descriptors stay open", open));
  }

  static constexpr Time kBoot = std::chrono::hours(1);
  const std::uint64_t seed_;
  const bool tells_;
  Job job_;
  int hosts_ = 1;
  std::vector<Fault> faults_;
  Topology topology_;
  engine::HandleTable handles_;
  Machine machine_;
  Rendezvous rendezvous_;
  std::vector<Rank> ranks_;
  std::vector<Listener> listeners_;
  std::size_t formed_ = 0;
  std::uint64_t steps_formed_ = 0;
  Blame blame_;
  Time quiet_since_{kBoot};
  std::map<std::size_t, std::int32_t> set_numbers_, last_joined_;  // by call
  Hash trace_;
  Outcome outcome_;
};

bool World::form(std::size_t at) {
  engine::Parts own;
  own.knobs = knobs_of(seed_, hosts_);
  own.topology = topology_;
  own.rank = static_cast<int>(at);
  own.job_key = "seed";
  own.address = "127.0.0.1";
  if (!rendezvous_.await(machine_)) return false;
  Status status = rendezvous_.come_together(&own);
  if (!status.ok()) {
    ended(at, Call{.name = "to start", .members = {}}, status);
    blame_.add(own.rank);  // by others that have begun already
    return false;
  }
  status = engine::Environment::get().make_planner(own.knobs, {}, &own.planner);
  if (status.ok()) status = engine::Bells::open(&own.bells);
  if (!status.ok()) throw std::runtime_error(status.message());
  own.host = engine::Environment::get().host();
  own.static_sets = job_.sets;
  own.handles = &handles_;
  own.has_core_each = seed_ % 4 == 0;
  ranks_[at].control = own.control.get();
  ranks_[at].engine = std::make_unique<Engine>(std::move(own));
  return true;
}

}  // namespace

Outcome play(const Play& what) {
  engine::Environment::get();
  return World(what).run();
}

}  // namespace roda::seeds
