// A peer is killed. The survivors learn of it as in a job, by other means than the transport, and abort.
#include <signal.h>

#include <cstring>
#include <numeric>

#include "plugins/conformance/kit.h"

namespace roda::conformance {
namespace {

constexpr std::size_t kUnfinishedBytes = 8u << 20;

int victim_of(Env& env) { return env.size() - 1; }

[[noreturn]] void die() {
  ::raise(SIGKILL);
  std::abort();
}

void abort_once_dead(Env& env, Group& group, const std::vector<roda_request*>& requests) {
  const int victim = victim_of(env);
  env.poll_until([&] { return env.world().is_dead(victim); }, "the victim's end");
  const std::string cause = "rank " + std::to_string(victim) + " died";
  group.abort(RODA_ERR_PEER, victim, cause.c_str());
  for (roda_request* request : requests) {
    if (request == nullptr) continue;
    const Result result = group.finish(request);
    CHECK(result.code < 0, "an operation with a dead rank ended with %d", result.code);
    CHECK(std::strlen(result.error.message) > 0, "the error has no text");
  }
}

// The case, and that the survivors form a group and talk after it.
template <void (*kCase)(Env&)>
void outlived(Env& env) {
  kCase(env);
  const int survivors = env.size() - 1;
  env.barrier(survivors);
  std::vector<int> members(static_cast<std::size_t>(survivors));
  std::iota(members.begin(), members.end(), 0);
  Group group(env, "survivors", {.members = members, .generation = 2});
  group.check_it_talks();
  env.barrier(survivors);
}

void while_connecting(Env& env) {
  Group group(env, "connecting", {.form = false});
  roda_error error = make_error();
  if (env.rank() == victim_of(env)) {
    group.test(&error);
    die();
  }
  Result result{RODA_IN_PROGRESS, make_error()};
  env.poll_until(
      [&] {
        result.code = group.test(&result.error);
        return result.code != RODA_IN_PROGRESS || env.world().is_dead(victim_of(env));
      },
      "forming with a rank that dies");
  abort_once_dead(env, group, {});
  if (result.code == RODA_IN_PROGRESS) result = group.form();
  CHECK(result.code <= RODA_OK, "forming with a dead rank: %d", result.code);
}

// Every survivor has sends to and receives from the victim in all states.
void while_talking(Env& env) {
  std::vector<char> in(kUnfinishedBytes), out(kUnfinishedBytes);
  Group group(env, "talking");
  const int victim = victim_of(env);
  std::vector<roda_request*> requests;
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer == group.rank() || (peer != victim && group.rank() != victim)) continue;
    requests.push_back(group.receive(peer, 1, in.data(), 100000));
    requests.push_back(group.receive(peer, 2, in.data() + 100000, kUnfinishedBytes - 100000));
    requests.push_back(group.send(peer, 2, out.data(), kUnfinishedBytes - 100000));
  }
  env.barrier();
  if (env.rank() == victim) die();
  // Posted when the victim may be gone already: refused at once, or pending.
  roda_request* late = nullptr;
  roda_error error = make_error();
  const int32_t code = env.table().recv(group.get(), victim, 3, in.data(), 10, nullptr, &late, &error);
  CHECK(code == RODA_OK ? late != nullptr : code < 0, "a receive from a dead rank: %d", code);
  abort_once_dead(env, group, {requests[0], late});
  for (std::size_t i = 1; i < requests.size(); ++i) group.finish(requests[i]);
  env.poll_until(
      [&] { return group.quiesced(in.data(), kUnfinishedBytes) && group.quiesced(out.data(), kUnfinishedBytes); },
      "quiesced() after a rank died");
}

void in_collective(Env& env) {
  constexpr std::size_t kFloats = 1u << 20;
  Buffer data(env.placement(), kFloats * sizeof(float), 0);
  Group group(env, "collective");
  roda_collective_args args = arguments(env, RODA_ALLREDUCE);
  args.input = args.output = data.data();
  args.count = kFloats;
  group.wait(group.start(args));  // once all together
  env.barrier();
  ++args.tag;
  if (env.rank() == victim_of(env)) die();
  roda_request* request = group.start(args);
  abort_once_dead(env, group, {request});
  env.poll_until([&] { return group.quiesced(data.data(), data.size()); }, "quiesced() after a rank died");
}

// Windows of a dead rank: signals stop, reads of what it left behind don't crash.
void with_windows(Env& env) {
  Group group(env, "windows");
  const int victim = victim_of(env);
  roda_memory memory = group.allocate(1 << 20);
  roda_error error = make_error();
  must("window_open",
       [&](roda_error* e) { return env.table().window_open(group.get(), 0, memory.address, 1 << 20, &memory, e); });
  group.signal_all(0, 1);
  group.wait_signal_of_all(0, 1);
  const auto* mapped =
      env.has(RODA_CAP_MAP) ? static_cast<const char*>(env.table().window_map(group.get(), victim, 0)) : nullptr;
  env.barrier();
  if (env.rank() == victim) die();
  env.poll_until([&] { return env.world().is_dead(victim); }, "the victim's end");
  if (mapped != nullptr) {
    volatile char last = mapped[(1 << 20) - 1];
    static_cast<void>(last);
  }
  std::vector<char> copy(1 << 20);
  roda_request* request = nullptr;
  const int32_t code = env.table().get(group.get(), victim, 0, 0, copy.data(), copy.size(), &request, &error);
  group.abort(RODA_ERR_PEER, victim, "the rank died");
  if (code == RODA_OK) group.finish(request);
  env.table().memory_free(group.get(), &memory);
}

// The others end the group as if nothing had happened: some before the death, some after it, none in time to abort.
void while_finalising(Env& env) {
  Group group(env, "finalising");
  std::vector<char> in(100000), out(in.size());
  if (env.has(RODA_CAP_P2P)) group.pass_around(1, out.data(), in.data(), in.size());
  env.barrier();
  if (env.rank() == victim_of(env)) die();
  if (env.rank() % 2 == 0) env.poll_until([&] { return env.world().is_dead(victim_of(env)); }, "the victim's end");
  group.destroy();
}

constexpr std::uint64_t kTolerant = RODA_CAP_FAULT_TOLERANT;
constexpr std::uint64_t kWindowed = kTolerant | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_ALLOCATE;

}  // namespace

const std::vector<Case> kDeathCases = {
    {"death.connecting", "a rank is killed while the group forms", kTolerant, 2, outlived<while_connecting>, true},
    {"death.talking", "a rank is killed with messages in all states", kTolerant | RODA_CAP_P2P, 2,
     outlived<while_talking>, true},
    {"death.collective", "a rank is killed in a native collective", kTolerant | RODA_CAP_NATIVE, 2,
     outlived<in_collective>, true},
    {"death.finalising", "a rank is killed while the others end the group", kTolerant, 2, outlived<while_finalising>,
     true},
    {"death.windows", "a rank is killed whose windows are mapped", kWindowed, 2, outlived<with_windows>, true},
};

}  // namespace roda::conformance
