// What the kit does not ask of every transport: cases for RDMA alone, written and run as the kit's are.
//
// usage: vm_verbs_cases PLUGIN RANKS
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "plugins/conformance/runner.h"
#include "plugins/devices/cpu/cpu_device.h"
#include "plugins/loader/host.h"
#include "plugins/loader/loader.h"

namespace roda::conformance {
namespace {

int victim_of(Env& env) { return env.size() - 1; }

void check_names_victim(Env& env, const Result& result) {
  CHECK(result.code == RODA_ERR_PEER, "the end is %d %s", result.code, result.error.message);
  CHECK(result.error.rank == victim_of(env), "rank %d is named: %s", result.error.rank, result.error.message);
  CHECK(std::strstr(result.error.message, ("rank " + std::to_string(victim_of(env))).c_str()) != nullptr,
        "the text names no rank: %s", result.error.message);
}

// Nobody aborts: the transport itself must notice that a rank is gone, while the others sleep.
void noticed_death(Env& env) {
  std::vector<char> in(1 << 20);
  Group group(env, "noticed");
  const int victim = victim_of(env);
  roda_request* received = nullptr;
  if (env.rank() != victim) received = group.receive(victim, 1, in.data(), in.size());
  env.barrier();
  if (env.rank() == victim) ::raise(SIGKILL);
  check_names_victim(env, group.finish(received));
}

// The same for one that only watches a signal, and asks now and then whether the group still works.
void noticed_by_watchers(Env& env) {
  Group group(env, "watchers");
  const int victim = victim_of(env);
  env.barrier();
  if (env.rank() == victim) ::raise(SIGKILL);
  Result result{RODA_OK, make_error()};
  env.poll_until([&] { return (result.code = group.test(&result.error)) != RODA_OK; }, "the news of a death");
  check_names_victim(env, result);
}

// What was sent arrives, though its sender gives up everything at once.
void sent_and_gone(Env& env) {
  constexpr int kMessages = 20;
  {
    Group group(env, "gone");
    if (env.rank() == 0) {
      for (int peer = 1; peer < group.size(); ++peer) {
        for (int i = 0; i < kMessages; ++i) group.wait(group.send(peer, 7, &i, sizeof i));
        group.signal(peer, 3, 99);
      }
    } else {
      for (int i = 0; i < kMessages; ++i) {
        int got = -1;
        group.wait(group.receive(0, 7, &got, sizeof got));
        CHECK(got == i, "message %d holds %d", i, got);
      }
      group.wait_signal(0, 3, 99);
      // From one that has left in good order nothing more comes, and that is said.
      char nothing[8];
      roda_request* request = nullptr;
      Result late{RODA_OK, make_error()};
      late.code = env.table().recv(group.get(), 0, 8, nothing, sizeof nothing, nullptr, &request, &late.error);
      if (late.code == RODA_OK) late = group.finish(request);
      CHECK(late.code == RODA_ERR_PEER && std::strstr(late.error.message, "left") != nullptr, "%d %s", late.code,
            late.error.message);
    }
  }
  if (env.rank() == 0) env.close_context();
  env.barrier();
}

roda_memory allocate(Env& env, Group& group, std::size_t bytes) {
  roda_memory memory{};
  roda_error error = make_error();
  memory.struct_size = sizeof memory;
  CHECK(env.table().memory_alloc(group.get(), bytes, &memory, &error) == RODA_OK, "%s", error.message);
  return memory;
}

// A signal follows a put at once, without waiting for its end: whoever sees it sees the data, on all rails.
void put_then_signal(Env& env) {
  constexpr std::size_t kBytes = 1 << 20;
  constexpr std::uint64_t kRounds = 30;
  Group group(env, "put_then_signal");
  const int right = (group.rank() + 1) % group.size(), left = (group.rank() + group.size() - 1) % group.size();
  roda_memory window = allocate(env, group, kBytes);
  std::vector<char> data(kBytes);
  roda_error error = make_error();
  CHECK(env.table().window_open(group.get(), 0, window.address, kBytes, &window, &error) == RODA_OK, "%s",
        error.message);
  group.signal(left, 1, 1);
  group.wait_signal(right, 1, 1);
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    std::memset(data.data(), static_cast<int>(round), kBytes);
    roda_request* request = group.put(right, 0, 0, data.data(), kBytes);
    group.signal(right, 0, round);
    group.wait_signal(left, 0, round);
    const auto* seen = static_cast<const char*>(window.address);
    const auto old = std::find_if(seen, seen + kBytes, [&](char c) { return c != static_cast<char>(round); });
    CHECK(old == seen + kBytes, "round %d: byte %zu is old", static_cast<int>(round),
          static_cast<std::size_t>(old - seen));
    group.wait(request);
    group.signal(left, 1, round + 1);
    group.wait_signal(right, 1, round + 1);
  }
  env.barrier();
  env.table().memory_free(group.get(), &window);
}

// Memory of the caller's that stays registered serves messages and windows like the transport's own.
void registered_memory(Env& env) {
  constexpr std::size_t kBytes = 300'000;
  Group group(env, "registered");
  const int right = (group.rank() + 1) % group.size(), left = (group.rank() + group.size() - 1) % group.size();
  std::vector<char> data = pattern(kBytes, group.rank(), right, 1), in(kBytes);
  roda_memory memory{};
  memory.struct_size = sizeof memory;
  memory.kind = RODA_MEMORY_HOST;
  memory.device = -1;
  memory.address = data.data();
  memory.length = kBytes;
  roda_error error = make_error();
  CHECK(env.table().window_open(group.get(), 0, data.data(), kBytes, nullptr, &error) < 0,
        "a window over memory that may be given back was accepted");
  CHECK(env.table().memory_register(group.get(), &memory, &error) == RODA_OK, "%s", error.message);
  CHECK(env.table().window_open(group.get(), 0, data.data(), kBytes, &memory, &error) == RODA_OK, "%s", error.message);
  group.signal(right, 0, 1);
  group.wait_signal(left, 0, 1);
  group.wait(group.get(left, 0, 100, in.data(), kBytes - 100));
  CHECK(std::memcmp(in.data(), pattern(kBytes, left, group.rank(), 1).data() + 100, kBytes - 100) == 0, "wrong data");
  CHECK(!group.quiesced(data.data(), 1), "quiesced() over an open window");
  env.barrier();
  env.table().window_close(group.get(), 0);
  env.table().memory_deregister(group.get(), &memory);
  CHECK(group.quiesced(data.data(), kBytes), "not quiesced after the window was closed");
}

// A long receive meets a short message: an error in bounded time, and not a hang.
void unlike_lengths(Env& env) {
  for (const bool posted_first : {true, false}) {
    Group group(env, posted_first ? "unlike_a" : "unlike_b");
    std::vector<char> in(200'000);
    if (env.rank() == 0) {
      roda_request* received = posted_first ? group.receive(1, 5, in.data(), in.size()) : nullptr;
      env.barrier(2);
      roda_request* late = nullptr;
      Result result{RODA_OK, make_error()};
      if (posted_first) {
        result = group.finish(received);
      } else {
        env.barrier(2);
        // The message is short, so it may be known to be wrong when the receive is posted.
        result.code = env.table().recv(group.get(), 1, 5, in.data(), in.size(), nullptr, &late, &result.error);
        if (result.code == RODA_OK) result = group.finish(late);
      }
      CHECK(result.code == RODA_ERR_INVALID, "%d %s", result.code, result.error.message);
    } else if (env.rank() == 1) {
      env.barrier(2);
      group.wait(group.send(0, 5, "ten bytes", 10));
      if (!posted_first) env.barrier(2);
    }
    env.world().note(env.rank()).fetch_add(1);
    env.poll_until([&] { return env.rank() > 1 || env.world().note(0).load() == env.world().note(1).load(); }, "both");
  }
}

struct Traffic {
  std::vector<char> data;
  std::uint64_t tag;
  int peer;
  bool is_send;
  bool posted = false;
  roda_request* request = nullptr;
};

// Lengths around every boundary, few tags, everyone to everyone, receives and sends posted in any order that keeps that
// of each tag.
void random_traffic(Env& env) {
  constexpr std::uint64_t kTags = 3;
  constexpr int kPerPair = 60;
  const std::size_t lengths[] = {0, 1, 4000, 4096, 4097, 5000, 60'000, 70'000, 131'072, 131'073, 400'000};
  Group group(env, "random");
  std::vector<Traffic> all;
  for (int from = 0; from < group.size(); ++from) {
    for (int to = 0; to < group.size(); ++to) {
      if (from == to || (from != group.rank() && to != group.rank())) continue;
      std::mt19937 shared(static_cast<unsigned>(from * 100 + to));  // both ends draw the same
      for (int i = 0; i < kPerPair; ++i) {
        const std::uint64_t tag = shared() % kTags;
        const std::size_t bytes = lengths[shared() % std::size(lengths)];
        const bool is_send = from == group.rank();
        Traffic one{is_send ? pattern(bytes, from, to, static_cast<std::uint64_t>(i)) : std::vector<char>(bytes), tag,
                    is_send ? to : from, is_send};
        all.push_back(std::move(one));
      }
    }
  }
  std::mt19937 own(static_cast<unsigned>(group.rank() + 1));
  roda_error error = make_error();
  const auto try_one = [&] {
    const std::size_t at = own() % all.size();
    // The first of its kind, peer and tag that isn't posted yet.
    const auto found = std::find_if(all.begin(), all.end(), [&](const Traffic& t) {
      return !t.posted && t.peer == all[at].peer && t.tag == all[at].tag && t.is_send == all[at].is_send;
    });
    if (found == all.end()) return;
    Traffic& t = *found;
    const int32_t code =
        t.is_send
            ? env.table().send(group.get(), t.peer, t.tag, t.data.data(), t.data.size(), nullptr, &t.request, &error)
            : env.table().recv(group.get(), t.peer, t.tag, t.data.data(), t.data.size(), nullptr, &t.request, &error);
    CHECK(code == RODA_OK || code == RODA_AGAIN, "%d %s", code, error.message);
    t.posted = code == RODA_OK;
  };
  const auto is_over = [&] {
    bool over = true;
    for (Traffic& t : all) {
      if (t.request != nullptr) {
        const int32_t code = env.table().request_test(group.get(), t.request, &error);
        CHECK(code == RODA_OK || code == RODA_IN_PROGRESS, "%d %s", code, error.message);
        if (code == RODA_OK) t.request = nullptr;
      }
      over = over && t.posted && t.request == nullptr;
    }
    return over;
  };
  env.poll_until(
      [&] {
        for (int i = 0; i < 20; ++i) try_one();
        return is_over();
      },
      "random traffic");
  for (int peer = 0; peer < group.size(); ++peer) {
    int i = 0;
    for (const Traffic& t : all) {
      if (t.is_send || t.peer != peer) continue;
      CHECK(t.data == pattern(t.data.size(), peer, group.rank(), static_cast<std::uint64_t>(i)),
            "message %d of %zu bytes from rank %d", i, t.data.size(), peer);
      ++i;
    }
  }
  env.barrier();
}

const std::vector<Case> kCases = {
    {"verbs.noticed_death", "a sleeping rank learns of a peer's death by itself", 0, 2, noticed_death, true},
    {"verbs.watchers", "so does one that only watches signals", 0, 2, noticed_by_watchers, true},
    {"verbs.sent_and_gone", "messages arrive after their sender has left", 0, 2, sent_and_gone},
    {"verbs.put_then_signal", "a signal does not overtake a put on another rail", 0, 2, put_then_signal},
    {"verbs.registered", "windows over registered memory", 0, 2, registered_memory},
    {"verbs.unlike_lengths", "a short message for a long receive", 0, 2, unlike_lengths},
    {"verbs.random_traffic", "random lengths, tags and orders of posting", 0, 2, random_traffic},
};

}  // namespace

int run_all(const char* path, int ranks) {
  plugins::Host host([](int, const char*, const char*) {}, roda_cpu_device());
  plugins::Loader loader(*host.table());
  const plugins::PluginRecord& plugin = loader.add(path);
  if (!plugin.usable) {
    std::fprintf(stderr, "%s\n", plugin.reason.c_str());
    return 2;
  }
  int failed = 0;
  for (const Case& which : kCases) {
    const Report report = run_case(which, *plugin.transport, host.table(), ranks);
    const bool passed = report.verdict == Report::kPassed;
    failed += passed ? 0 : 1;
    std::printf("%s  %-24s %5d ms  %s\n%s%s", passed ? "ok  " : "FAIL", which.name,
                static_cast<int>(report.milliseconds), which.summary, report.text.c_str(), passed ? "" : "\n");
    std::fflush(stdout);
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace roda::conformance

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: vm_verbs_cases PLUGIN RANKS\n");
    return 2;
  }
  return roda::conformance::run_all(argv[1], std::atoi(argv[2]));
}
