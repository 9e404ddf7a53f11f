// Aborts: everything ends, with the first cause, in bounded time.
#include <cstring>
#include <thread>

#include "plugins/conformance/kit.h"

namespace roda::conformance {
namespace {

constexpr std::size_t kLong = 4u << 20;
const char* const kCause = "the kit pulled the plug";

void check_cause(const Result& result, const char* what) {
  CHECK(result.code == RODA_ERR_PRECONDITION, "%s ended with %d %s instead of the abort's code", what, result.code,
        result.error.message);
  CHECK(std::strstr(result.error.message, kCause) != nullptr, "%s lacks the cause: %s", what, result.error.message);
}

// A group with operations that can't end by themselves: receives nobody sends to, sends nobody takes, a collective
// nobody joins. All ranks have started theirs when it is made.
struct Pending {
  Pending(Env& of, const std::string& name, std::uint64_t generation = 1)
      : env(of),
        in(env.placement(), kLong),
        out(env.placement(), kLong),
        reduced(env.placement(), kLong, 0),
        group(env, name, {.generation = generation}) {
    group.check_it_talks();
    start();
    env.barrier();
  }

  Env& env;
  Buffer in, out, reduced;  // outlive the group
  Group group;
  std::vector<roda_request*> requests;
  roda_request* sent = nullptr;  // a transport may have taken the message already

  void start() {
    const int peer = group.right();
    if (env.has(RODA_CAP_P2P)) {
      requests.push_back(group.receive(peer, 100, in.data(), in.size() / 2));
      requests.push_back(group.receive(peer, 101, in.data() + in.size() / 2, 10));
      if (group.rank() == 0) sent = group.send(peer, 102, out.data(), out.size());
    }
    if (env.has(RODA_CAP_NATIVE) && group.rank() == 0) {
      for (int i = 0; i < 3; ++i) {
        roda_collective_args args = arguments(env, RODA_ALLREDUCE);
        args.input = args.output = reduced.data() + i * 1000000;
        args.count = 1000;
        requests.push_back(group.start(args));
      }
    }
    std::erase(requests, nullptr);
  }
  void abort() { group.abort(RODA_ERR_PRECONDITION, 0, kCause); }
  void check_failed() {
    for (roda_request* request : requests) {
      const Result result = group.finish(request);
      CHECK(result.code < 0, "a pending operation ended with %d after the abort", result.code);
    }
  }
  void check_quiet() {
    if (!env.has(RODA_CAP_FAULT_TOLERANT)) return;
    const auto quiet = [this] {
      return group.quiesced(in.data(), kLong) && group.quiesced(out.data(), kLong) &&
             group.quiesced(reduced.data(), kLong);
    };
    env.poll_until(quiet, "quiesced() after the abort");
  }
};

void check_first_cause(Pending& pending) {
  Group& group = pending.group;
  pending.abort();
  group.abort(RODA_ERR_TIMEOUT, 1, "a second cause that must not be told");
  for (roda_request* request : pending.requests) check_cause(group.finish(request), "a pending operation");
  if (const Result send = group.finish(pending.sent); send.code != RODA_OK) check_cause(send, "a pending send");
  pending.check_quiet();
  if (!pending.env.has(RODA_CAP_P2P)) return;
  roda_request* request = nullptr;
  Result later{RODA_OK, make_error()};
  later.code = pending.env.table().send(group.get(), 1, 1, "x", 1, nullptr, &request, &later.error);
  if (later.code == RODA_OK) later = group.finish(request);
  check_cause(later, "an operation started after the abort");
}

// Rank 0 looks on alone, so that no other rank's abort can come first.
void pending(Env& env) {
  Pending pending(env, "pending");
  if (env.has(RODA_CAP_P2P)) {
    CHECK(!pending.group.quiesced(pending.in.data(), kLong), "quiesced() while a receive into the range is pending");
    CHECK(pending.group.quiesced(&pending, sizeof pending), "not quiesced() over memory that no operation uses");
    env.barrier();
  }
  if (env.rank() == 0) check_first_cause(pending);
  env.barrier();
  pending.abort();
  if (env.rank() == 0) return;
  pending.check_failed();
  pending.check_quiet();
}

// Only one rank aborts: the others must not hang for longer than it takes them to be told, by the transport or (as the
// engine would) by their own abort.
void one_aborts(Env& env) {
  Pending pending(env, "one_aborts");
  if (env.rank() == 0) pending.abort();
  env.barrier();
  if (env.rank() != 0) pending.abort();
  pending.check_failed();
  pending.check_quiet();
  env.barrier();
}

// A sleeper must be woken by an abort from another thread.
void while_asleep(Env& env) {
  Pending pending(env, "while_asleep");
  std::thread other([&] {
    const timespec pause{0, 20'000'000};  // only makes it likely that the sleeper sleeps already
    ::nanosleep(&pause, nullptr);
    pending.abort();
  });
  try {
    pending.check_failed();
  } catch (...) {
    other.join();
    throw;
  }
  other.join();
  pending.check_quiet();
  env.barrier();
}

void while_forming(Env& env) {
  const int absent = env.size() - 1;
  if (env.rank() != absent) {
    Group group(env, "forming", {.form = false});
    roda_error error = make_error();
    for (int i = 0; i < 50 && group.test(&error) == RODA_IN_PROGRESS; ++i) env.table().progress(env.context());
    group.abort(RODA_ERR_PRECONDITION, 0, kCause);
    check_cause(group.form(), "forming");
  }
  env.barrier();
}

// A new generation forms and works after an abort.
void and_again(Env& env) {
  for (std::uint64_t generation = 1; generation <= 3; ++generation) {
    Pending pending(env, "again", generation);
    pending.abort();
    pending.check_failed();
    pending.check_quiet();
    env.barrier();
  }
}

// Destroyed after an abort without asking for the ends of the requests.
void then_destroy(Env& env) {
  Pending pending(env, "then_destroy");
  pending.abort();
  pending.group.destroy();
  env.barrier();
}

}  // namespace

const std::vector<Case> kAbortCases = {
    {"abort.pending", "all pending and later operations end with the first cause", 0, 2, pending},
    {"abort.one_aborts", "nobody hangs when one rank aborts first", 0, 2, one_aborts},
    {"abort.while_asleep", "an abort from another thread wakes the sleeper", 0, 2, while_asleep},
    {"abort.while_forming", "a group that can't form is given up", 0, 2, while_forming},
    {"abort.and_again", "the next generation works", 0, 2, and_again},
    {"abort.then_destroy", "an aborted group is destroyed with requests pending", 0, 2, then_destroy},
};

}  // namespace roda::conformance
