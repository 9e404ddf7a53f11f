// Point-to-point messages.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "plugins/conformance/kit.h"

namespace roda::conformance {
namespace {

constexpr std::size_t kSizes[] = {0,    1,    7,     8,     64,    4095,   4096,    4097,
                                  8192, 8193, 65535, 65536, 65537, 262144, 1048579, 8u << 20};

// Messages around a ring, each of a length and with a pattern of its own, and those that come from the left.
class Ring {
 public:
  Ring(Group& group, std::vector<std::size_t> lengths) : group_(group) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      out_.push_back(pattern(lengths[i], group.rank(), group.right(), i));
      in_.emplace_back(lengths[i], 'x');
    }
  }
  std::size_t size() const { return in_.size(); }
  roda_request* send(std::size_t i, std::uint64_t tag) {
    return group_.send(group_.right(), tag, out_[i].data(), out_[i].size());
  }
  roda_request* receive(std::size_t i, std::uint64_t tag) {
    return group_.receive(group_.left(), tag, in_[i].data(), in_[i].size());
  }
  // All were received.
  void check() {
    for (std::size_t i = 0; i < size(); ++i) {
      CHECK(in_[i] == pattern(in_[i].size(), group_.left(), group_.rank(), i), "message %zu, of %zu bytes: wrong data",
            i, in_[i].size());
    }
  }

 private:
  Group& group_;
  std::vector<std::vector<char>> out_, in_;
};

std::vector<std::size_t> lengths(std::size_t count, std::size_t first, std::size_t step) {
  std::vector<std::size_t> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = first + i * step;
  return all;
}

void sizes(Env& env) {
  Group group(env, "sizes");
  Ring ring(group, {std::begin(kSizes), std::end(kSizes)});
  for (std::size_t i = 0; i < ring.size(); ++i) {
    roda_request* received = ring.receive(i, i);
    group.wait({received, ring.send(i, i)});
  }
  ring.check();
  env.barrier();
}

void unexpected(Env& env) {
  Group group(env, "unexpected");
  Ring ring(group, {0, 5, 5000, 300000});
  for (std::size_t i = 0; i < ring.size(); ++i) {
    roda_request* sent = ring.send(i, i);
    env.barrier();  // by now every message is on its way, and no receive is posted
    group.wait({ring.receive(i, i), sent});
    env.barrier();
  }
  ring.check();
}

using Places = std::vector<std::size_t>;

// Messages of these lengths around a ring, each under `tag(i)`. The receives of the first list are posted before the
// messages are sent, those of the second after it.
template <typename Tag>
void pass(Env& env, const char* name, Places all, Tag&& tag, const Places& before, const Places& after) {
  Group group(env, name);
  Ring ring(group, std::move(all));
  std::vector<roda_request*> requests;
  for (const std::size_t i : before) requests.push_back(ring.receive(i, tag(i)));
  for (std::size_t i = 0; i < ring.size(); ++i) requests.push_back(ring.send(i, tag(i)));
  for (const std::size_t i : after) requests.push_back(ring.receive(i, tag(i)));
  group.wait(requests);
  ring.check();
  env.barrier();
}

void tags(Env& env) {
  constexpr std::uint64_t kHigh = 0xfedcba9800000000;  // all 64 bits count
  Places backwards = lengths(64, 0, 1);
  std::reverse(backwards.begin(), backwards.end());
  pass(env, "tags", lengths(64, 0, 100), [](std::size_t i) { return kHigh * (i % 2) + i; }, backwards, {});
}

// The receives of even tags before the messages come; then all others, the last tag of each round first.
void far_tags(Env& env) {
  constexpr std::size_t kTags = 200, kRounds = 2;
  Places rest;
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t left = kTags; left > 0; left -= 2) rest.push_back(round * kTags + left - 1);
  }
  const auto tag = [](std::size_t i) { return std::uint64_t{i % kTags} << 40 | 3; };
  pass(env, "far tags", lengths(kTags * kRounds, 5000, 1), tag, lengths(kTags * kRounds / 2, 0, 2), rest);
}

void order(Env& env) {
  constexpr std::size_t kHalf = 100;
  Places all(2 * kHalf);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i % 3 == 0 ? 20000 : i % 3 * 4;
  pass(
      env, "order", all, [](std::size_t) { return std::uint64_t{7}; }, lengths(kHalf, 0, 1), lengths(kHalf, kHalf, 1));
}

void all_pairs(Env& env) {
  Group group(env, "pairs");
  const auto peers = static_cast<std::size_t>(group.size());
  const auto bytes_of = [](int from, int to) { return static_cast<std::size_t>(1000 + 70000 * from + 9000 * to); };
  std::vector<std::vector<char>> in(peers), out(peers);
  std::vector<roda_request*> requests;
  group.for_each_peer([&](int peer) {
    const auto index = static_cast<std::size_t>(peer);
    out[index] = pattern(bytes_of(group.rank(), peer), group.rank(), peer, 3);
    in[index].resize(bytes_of(peer, group.rank()));
    requests.push_back(group.send(peer, 3, out[index].data(), out[index].size()));
    requests.push_back(group.receive(peer, 3, in[index].data(), in[index].size()));
  });
  group.wait(requests);
  group.for_each_peer([&](int peer) {
    CHECK(in[static_cast<std::size_t>(peer)] == pattern(bytes_of(peer, group.rank()), peer, group.rank(), 3),
          "wrong data from rank %d", peer);
  });
  env.barrier();
}

// Two lanes: both ranks send in one order and receive in the other, waiting in between. A transport that completes
// strictly in the order of posting locks up here.
void crossed(Env& env) {
  Group group(env, "crossed");
  Ring lanes(group, {1u << 20, 1u << 20});
  roda_request* first = lanes.send(0, 1);
  roda_request* second = lanes.send(1, 2);
  group.wait(lanes.receive(1, 2));
  group.wait(second);
  group.wait(lanes.receive(0, 1));
  group.wait(first);
  lanes.check();
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

// Messages between ranges of the memory under test, which may be a device's.
constexpr std::size_t kLengths[] = {0, 1, 7, 4096, 8193, 65537, 1048579};

bool takes(Env& env) {
  const auto& table = env.table();
  const std::uint32_t host = 1u << RODA_MEMORY_HOST;
  const std::uint32_t kinds =
      table.memory_kinds == nullptr ? host : table.memory_kinds(env.context(), env.placement().number);
  return (kinds & 1u << env.placement().memory_kind()) != 0;
}

// Registered while it lives, where it can be.
class Registered {
 public:
  Registered(Env& env, Group& group, Buffer* buffer) : env_(env), group_(group), memory_(buffer->memory()) {
    if (memory_ == nullptr || buffer->size() == 0 || !env.has(RODA_CAP_REGISTER)) memory_ = nullptr;
    if (memory_ == nullptr) return;
    must("memory_register of " + std::to_string(buffer->size()) + " bytes",
         [&](roda_error* error) { return env.table().memory_register(group.get(), memory_, error); });
  }
  ~Registered() {
    if (memory_ != nullptr) env_.table().memory_deregister(group_.get(), memory_);
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

 private:
  Env& env_;
  Group& group_;
  roda_memory* memory_;
};

void exchange(Env& env, Group& group, std::size_t bytes, std::uint64_t tag, bool registers) {
  Buffer mine(env.placement(), pattern(bytes, group.rank(), group.right(), tag));
  Buffer theirs(env.placement(), bytes);
  {
    std::vector<std::unique_ptr<Registered>> registered;
    for (Buffer* buffer : {&mine, &theirs}) {
      if (registers) registered.push_back(std::make_unique<Registered>(env, group, buffer));
    }
    roda_request* received = group.receive(group.left(), tag, theirs.data(), bytes, theirs.memory());
    roda_request* sent = group.send(group.right(), tag, mine.data(), bytes, mine.memory());
    group.wait({received, sent});
  }
  CHECK(theirs.read() == pattern(bytes, group.left(), group.rank(), tag), "wrong data in a message of %zu bytes",
        bytes);
}

void messages(Env& env) {
  Group group(env, "placed");
  if (!takes(env)) throw CaseSkipped("messages take no such memory here");
  std::uint64_t tag = 0;
  for (const bool registers : {false, true}) {
    for (const std::size_t bytes : kLengths) exchange(env, group, bytes, ++tag, registers);
  }
  env.barrier();
}

}  // namespace

const std::vector<Case> kMessageCases = {
    {"p2p.sizes", "messages of 0 bytes to 8 MiB around a ring", RODA_CAP_P2P, 2, sizes},
    {"p2p.unexpected", "receives posted after the message came", RODA_CAP_P2P, 2, unexpected},
    {"p2p.tags", "64 tags, received in reverse", RODA_CAP_P2P, 2, tags},
    {"p2p.far_tags", "200 tags that differ in their high bits, in another order", RODA_CAP_P2P, 2, far_tags},
    {"p2p.order", "messages of one tag keep their order", RODA_CAP_P2P, 2, order},
    {"p2p.all_pairs", "everyone to everyone at once", RODA_CAP_P2P, 2, all_pairs},
    {"p2p.crossed", "two lanes received in the opposite order", RODA_CAP_P2P, 2, crossed},
    {"p2p.pressure", "3,000 messages as fast as they are taken", RODA_CAP_P2P, 2, pressure},
    {"p2p.mismatch", "different lengths are the receiver's error", RODA_CAP_P2P, 2, mismatch},
    {"p2p.bad_peer", "a rank outside the group is refused", RODA_CAP_P2P, 2, bad_peer},
    {"memory.messages", "messages between ranges of the memory under test, registered and not", RODA_CAP_P2P, 2,
     messages},
};

}  // namespace roda::conformance
