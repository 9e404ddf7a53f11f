// Point-to-point messages.
#include <algorithm>
#include <cstring>

#include "plugins/conformance/kit.h"

namespace roda::conformance {
namespace {

constexpr std::size_t kSizes[] = {0,    1,    7,     8,     64,    4095,   4096,    4097,
                                  8192, 8193, 65535, 65536, 65537, 262144, 1048579, 8u << 20};

void sizes(Env& env) {
  Group group(env, "sizes");
  std::uint64_t tag = 0;
  for (const std::size_t bytes : kSizes) {
    ++tag;
    const std::vector<char> mine = pattern(bytes, group.rank(), group.right(), tag);
    std::vector<char> theirs(bytes, 'x');
    group.pass_around(tag, mine.data(), theirs.data(), bytes);
    CHECK(theirs == pattern(bytes, group.left(), group.rank(), tag), "wrong data in a message of %zu bytes", bytes);
  }
  env.barrier();
}

void unexpected(Env& env) {
  Group group(env, "unexpected");
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{5}, std::size_t{5000}, std::size_t{300000}}) {
    const std::vector<char> mine = pattern(bytes, group.rank(), group.right(), bytes);
    std::vector<char> theirs(bytes, 'x');
    roda_request* sent = group.send(group.right(), bytes, mine.data(), bytes);
    env.barrier();  // by now every message is on its way, and no receive is posted
    roda_request* received = group.receive(group.left(), bytes, theirs.data(), bytes);
    group.wait({received, sent});
    CHECK(theirs == pattern(bytes, group.left(), group.rank(), bytes),
          "wrong data in an unexpected message of %zu bytes", bytes);
    env.barrier();
  }
}

void tags(Env& env) {
  constexpr std::uint64_t kTags = 64;
  constexpr std::uint64_t kHigh = 0xfedcba9800000000;  // all 64 bits count
  Group group(env, "tags");
  std::vector<std::vector<char>> in(kTags), out(kTags);
  std::vector<roda_request*> requests;
  for (std::uint64_t tag = kTags; tag-- > 0;) {
    in[tag].resize(100 * tag);
    requests.push_back(group.receive(group.left(), kHigh * (tag % 2) + tag, in[tag].data(), in[tag].size()));
  }
  for (std::uint64_t tag = 0; tag < kTags; ++tag) {
    out[tag] = pattern(100 * tag, group.rank(), group.right(), tag);
    requests.push_back(group.send(group.right(), kHigh * (tag % 2) + tag, out[tag].data(), out[tag].size()));
  }
  group.wait(requests);
  for (std::uint64_t tag = 0; tag < kTags; ++tag) {
    CHECK(in[tag] == pattern(100 * tag, group.left(), group.rank(), tag), "tag %d got another's data",
          static_cast<int>(tag));
  }
  env.barrier();
}

void far_tags(Env& env) {
  constexpr std::size_t kTags = 200, kRounds = 2;
  Group group(env, "far tags");
  std::vector<std::vector<char>> in(kTags * kRounds), out(kTags * kRounds);
  std::vector<roda_request*> requests;
  const auto tag = [](std::size_t message) { return std::uint64_t{message % kTags} << 40 | 3; };
  const auto receive = [&](std::size_t message) {
    in[message].resize(5000 + message);
    requests.push_back(group.receive(group.left(), tag(message), in[message].data(), in[message].size()));
  };
  // Those of even tags before the messages come; then all others, the last tag first.
  for (std::size_t message = 0; message < in.size(); message += 2) receive(message);
  for (std::size_t message = 0; message < out.size(); ++message) {
    out[message] = pattern(5000 + message, group.rank(), group.right(), message);
    requests.push_back(group.send(group.right(), tag(message), out[message].data(), out[message].size()));
  }
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t left = kTags; left > 0; left -= 2) receive(round * kTags + left - 1);
  }
  group.wait(requests);
  for (std::size_t message = 0; message < in.size(); ++message) {
    CHECK(in[message] == pattern(5000 + message, group.left(), group.rank(), message), "message %zu got other data",
          message);
  }
  env.barrier();
}

void order(Env& env) {
  constexpr int kMessages = 200;
  Group group(env, "order");
  std::vector<std::vector<int>> in(kMessages), out(kMessages);
  std::vector<roda_request*> requests;
  const auto length = [](int i) { return static_cast<std::size_t>(i % 3 == 0 ? 5000 : i % 3); };
  for (int i = 0; i < kMessages; ++i) {
    out[static_cast<std::size_t>(i)].assign(length(i) + 1, i);
    in[static_cast<std::size_t>(i)].resize(length(i) + 1);
  }
  // Half of the receives before the messages, half after.
  const auto receive = [&](int i) {
    auto& data = in[static_cast<std::size_t>(i)];
    requests.push_back(group.receive(group.left(), 7, data.data(), data.size() * sizeof(int)));
  };
  for (int i = 0; i < kMessages / 2; ++i) receive(i);
  for (int i = 0; i < kMessages; ++i) {
    auto& data = out[static_cast<std::size_t>(i)];
    requests.push_back(group.send(group.right(), 7, data.data(), data.size() * sizeof(int)));
  }
  for (int i = kMessages / 2; i < kMessages; ++i) receive(i);
  group.wait(requests);
  for (int i = 0; i < kMessages; ++i) {
    CHECK(in[static_cast<std::size_t>(i)] == out[static_cast<std::size_t>(i)], "message %d came out of order", i);
  }
  env.barrier();
}

void all_pairs(Env& env) {
  Group group(env, "pairs");
  const auto peers = static_cast<std::size_t>(group.size());
  const auto bytes_of = [](int from, int to) { return static_cast<std::size_t>(1000 + 70000 * from + 9000 * to); };
  std::vector<std::vector<char>> in(peers), out(peers);
  std::vector<roda_request*> requests;
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer == group.rank()) continue;
    const auto index = static_cast<std::size_t>(peer);
    out[index] = pattern(bytes_of(group.rank(), peer), group.rank(), peer, 3);
    in[index].resize(bytes_of(peer, group.rank()));
    requests.push_back(group.send(peer, 3, out[index].data(), out[index].size()));
    requests.push_back(group.receive(peer, 3, in[index].data(), in[index].size()));
  }
  group.wait(requests);
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer == group.rank()) continue;
    CHECK(in[static_cast<std::size_t>(peer)] == pattern(bytes_of(peer, group.rank()), peer, group.rank(), 3),
          "wrong data from rank %d", peer);
  }
  env.barrier();
}

// Two lanes: both ranks send in one order and receive in the other, waiting in between. A transport that completes
// strictly in the order of posting locks up here.
void crossed(Env& env) {
  constexpr std::size_t kBytes = 1u << 20;
  Group group(env, "crossed");
  const std::vector<char> out[2] = {pattern(kBytes, group.rank(), group.right(), 1),
                                    pattern(kBytes, group.rank(), group.right(), 2)};
  std::vector<char> in[2] = {std::vector<char>(kBytes), std::vector<char>(kBytes)};
  roda_request* first = group.send(group.right(), 1, out[0].data(), kBytes);
  roda_request* second = group.send(group.right(), 2, out[1].data(), kBytes);
  group.wait(group.receive(group.left(), 2, in[1].data(), kBytes));
  group.wait(second);
  group.wait(group.receive(group.left(), 1, in[0].data(), kBytes));
  group.wait(first);
  for (int i = 0; i < 2; ++i) {
    CHECK(in[i] == pattern(kBytes, group.left(), group.rank(), static_cast<std::uint64_t>(i + 1)),
          "wrong data, lane %d", i);
  }
  env.barrier();
}

void pressure(Env& env) {
  constexpr std::uint32_t kMessages = 3000;
  Group group(env, "pressure");
  std::vector<std::uint32_t> out(kMessages), in(kMessages);
  std::vector<roda_request*> requests;
  std::uint32_t sent = 0, received = 0;
  roda_error error = make_error();
  // Posts as fast as it is taken; RODA_AGAIN on one side must not keep the other from being served.
  env.poll_until(
      [&] {
        roda_request* request = nullptr;
        int32_t code = RODA_OK;
        for (; sent < kMessages; ++sent) {
          out[sent] = sent * 3 + 1;
          code = env.table().send(group.get(), group.right(), sent, &out[sent], sizeof out[sent], nullptr, &request,
                                  &error);
          if (code == RODA_AGAIN) break;
          CHECK(code == RODA_OK, "send: %d %s", code, error.message);
          requests.push_back(request);
        }
        for (; received < std::min(kMessages, sent + 1); ++received) {
          code = env.table().recv(group.get(), group.left(), received, &in[received], sizeof in[received], nullptr,
                                  &request, &error);
          if (code == RODA_AGAIN) break;
          CHECK(code == RODA_OK, "recv: %d %s", code, error.message);
          requests.push_back(request);
        }
        std::erase_if(requests, [&](roda_request* pending) {
          if (pending == nullptr) return true;
          const int32_t end = env.table().request_test(group.get(), pending, &error);
          CHECK(end == RODA_OK || end == RODA_IN_PROGRESS, "request: %d %s", end, error.message);
          return end == RODA_OK;
        });
        return sent == kMessages && received == kMessages && requests.empty();
      },
      "a flood of messages");
  for (std::uint32_t i = 0; i < kMessages; ++i) CHECK(in[i] == i * 3 + 1, "message %u holds %u", i, in[i]);
  env.barrier();
}

// The receive was posted first, came later, or was given another length: always an error on the receiver alone.
void mismatch(Env& env) {
  for (const bool posted_first : {true, false}) {
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{100000}}) {
      Group group(env, "mismatch" + std::to_string(bytes) + (posted_first ? "a" : "b"));
      if (group.rank() == 0) {
        const std::vector<char> data(bytes, 'd');
        if (posted_first) env.barrier(2);
        roda_request* request = group.send(1, 9, data.data(), data.size());
        if (!posted_first) {
          env.settle();
          env.world().note(0).fetch_add(1);
        }
        const Result result = group.finish(request);
        CHECK(result.code <= RODA_OK, "the sender got %d", result.code);
      } else if (group.rank() == 1) {
        std::vector<char> data(bytes + 1);
        roda_request* request = nullptr;
        roda_error error = make_error();
        if (!posted_first) {
          // With progress meanwhile: a first message may have to connect the two.
          env.poll_until([&] { return env.world().note(0).load() > env.world().note(1).load(); },
                         "the message's leaving");
          env.world().note(1).fetch_add(1);
        }
        int32_t code = RODA_AGAIN;
        env.poll_until(
            [&] {
              code = env.table().recv(group.get(), 0, 9, data.data(), data.size(), nullptr, &request, &error);
              return code != RODA_AGAIN;
            },
            "recv");
        if (posted_first) env.barrier(2);
        Result result{code, error};
        if (code == RODA_OK) result = group.finish(request);
        CHECK(result.code < 0, "a message of %zu bytes was received as %zu", bytes, bytes + 1);
        CHECK(std::strlen(result.error.message) > 0, "the error has no text");
      }
      env.world().note(env.rank()).fetch_add(1);
      env.poll_until([&] { return env.world().note(0).load() == env.world().note(1).load() || env.rank() > 1; },
                     "both ranks");
    }
  }
}

void bad_peer(Env& env) {
  Group group(env, "bad_peer");
  char byte = 0;
  roda_request* request = nullptr;
  for (const int peer : {-1, group.size()}) {
    roda_error error = make_error();
    const int32_t code = env.table().send(group.get(), peer, 1, &byte, 1, nullptr, &request, &error);
    CHECK(code < 0, "sending to peer %d was accepted", peer);
    CHECK(std::strlen(error.message) > 0, "the error has no text");
  }
  env.barrier();
}

}  // namespace

const std::vector<Case> kMessageCases = {
    {"p2p.sizes", "messages of 0 bytes to 8 MiB around a ring", RODA_CAP_P2P, 2, kPlain, sizes},
    {"p2p.unexpected", "receives posted after the message came", RODA_CAP_P2P, 2, kPlain, unexpected},
    {"p2p.tags", "64 tags, received in reverse", RODA_CAP_P2P, 2, kPlain, tags},
    {"p2p.far_tags", "200 tags that differ in their high bits, in another order", RODA_CAP_P2P, 2, kPlain, far_tags},
    {"p2p.order", "messages of one tag keep their order", RODA_CAP_P2P, 2, kPlain, order},
    {"p2p.all_pairs", "everyone to everyone at once", RODA_CAP_P2P, 2, kPlain, all_pairs},
    {"p2p.crossed", "two lanes received in the opposite order", RODA_CAP_P2P, 2, kPlain, crossed},
    {"p2p.pressure", "3,000 messages as fast as they are taken", RODA_CAP_P2P, 2, kPlain, pressure},
    {"p2p.mismatch", "different lengths are the receiver's error", RODA_CAP_P2P, 2, kPlain, mismatch},
    {"p2p.bad_peer", "a rank outside the group is refused", RODA_CAP_P2P, 2, kPlain, bad_peer},
};

}  // namespace roda::conformance
