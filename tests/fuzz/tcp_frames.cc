// What a member of a group sends on a connection of the tcp transport, once it has proved to be one. This rank has
// receives and sends of all kinds that wait for it.
#include <roda/abi/host.h>
#include <sys/socket.h>

#include <array>
#include <map>
#include <memory>

#include "plugins/base/unique_fd.h"
#include "tests/fuzz/fuzz.h"
#include "transports/tcp/context.h"
#include "transports/tcp/group.h"

namespace roda::fuzz {
namespace {

using tcp_transport::Header;
using tcp_transport::Kind;

constexpr std::size_t kShort = 100, kLong = 100'000;

// The peer has published what this rank has.
struct Mirror {
  std::map<std::string, std::string> values;

  static std::int32_t put(void* self, const char* key, const void* value, std::size_t bytes, roda_error*) {
    static_cast<Mirror*>(self)->values[key] = std::string(static_cast<const char*>(value), bytes);
    return RODA_OK;
  }
  static std::int32_t get(void* self, std::int32_t, const char* key, void* value, std::size_t* bytes, roda_error*) {
    const std::string& there = static_cast<Mirror*>(self)->values.at(key);
    require(there.size() <= *bytes, "the value fits");
    std::memcpy(value, there.data(), *bytes = there.size());
    return RODA_OK;
  }
};

tcp_transport::Context& context() {
  static const roda_host host{
      .struct_size = sizeof host,
      .abi_version = RODA_ABI_VERSION,
      .self = nullptr,
      .log = [](void*, std::int32_t, const char*, const char*) {},
      .knob = [](void*, const char*) -> const char* { return nullptr; },
      .reduce = nullptr,
      .copy = [](void*, void* to, const void* from, std::size_t n) { std::memcpy(to, from, n); }};
  static tcp_transport::Context all(&host);
  return all;
}

std::string frame(Kind kind, std::uint64_t a = 0, std::uint64_t b = 0, std::uint64_t c = 0,
                  std::string_view data = {}) {
  const Header header{kind, static_cast<std::uint32_t>(data.size()), 0, 0, a, b, c};
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + std::string(data);
}

struct Rank {
  std::vector<std::byte> data = std::vector<std::byte>(4 * (kShort + kLong));
  std::vector<tcp_transport::Request*> requests;

  void post(tcp_transport::Group& group) {
    std::byte* at = data.data();
    for (const std::size_t bytes : {kShort, kLong}) {
      for (const bool sends : {false, true}) {
        for (const std::uint64_t tag : {1, 2}) {
          tcp_transport::Request* request = nullptr;
          const std::size_t length = tag == 1 ? bytes : bytes - 1;
          sends ? group.send(1, tag, at, length, nullptr, &request)
                : group.receive(1, tag, at, length, nullptr, &request);
          if (request != nullptr) requests.push_back(request);
          at += length;
        }
      }
    }
  }
  // One turn of the engine. False: the group has ended.
  bool turn(tcp_transport::Group& group) {
    context().progress();
    std::erase_if(requests, [&](tcp_transport::Request* request) { return group.test(request) != RODA_IN_PROGRESS; });
    return !group.state().is_broken();
  }
};

}  // namespace

std::vector<std::string> seeds() {
  const std::string hundred(kShort, 'x'), leave = frame(Kind::kLeave);
  return {chunk(frame(Kind::kEager, 1, 0, 0, hundred)) + chunk(frame(Kind::kEager, 2, 0, 0, hundred.substr(1)) + leave),
          chunk(frame(Kind::kAnnounce, 1, kLong, 7)) + chunk(frame(Kind::kData, 3, 0, 7, hundred)),
          chunk(frame(Kind::kReady, 1, kLong, 9) + frame(Kind::kClear, 5, 0, 9)),
          chunk(frame(Kind::kRefuse, 5)) + chunk(frame(Kind::kCredit)),
          chunk(frame(Kind::kEager, 77, 0, 0, hundred).substr(0, 50)) + chunk(hundred.substr(0, 90)),
          chunk(frame(Kind::kAbort, RODA_ERR_ABORTED & 0xff, 1, 0, "why")),
          chunk(leave)};
}

}  // namespace roda::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roda;
  using namespace roda::fuzz;
  Mirror mirror;
  const std::array<std::int32_t, 2> world{0, 1};
  roda_group_desc desc{};
  desc.struct_size = sizeof desc;
  desc.size = 2;
  desc.world_ranks = world.data();
  desc.name = "fuzz";
  desc.exchange = {sizeof desc.exchange, 0, &mirror, Mirror::put, Mirror::get};
  Rank rank;
  UniqueFd peer;
  {
    tcp_transport::Group group(context(), desc);
    while (!group.test()) {
    }
    int ends[2];
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0, "there are sockets");
    peer.reset(ends[0]);
    require(group.expects_lane(1, group.own(), 0), "the peer may connect");
    group.take(group.peer(1), 0, UniqueFd(ends[1]));
    Input input(data, size);
    std::array<char, 1 << 16> sink;
    try {
      rank.post(group);
      while (input && rank.turn(group)) {
        const auto piece = input.chunk();
        if (!piece.empty() && ::send(peer.get(), piece.data(), piece.size(), MSG_NOSIGNAL) < 0) break;
        while (::recv(peer.get(), sink.data(), sink.size(), 0) > 0) {
        }
      }
      rank.turn(group);
    } catch (const sdk::Failure&) {  // what makes no sense ends the group, or one operation
    }
  }
  peer.reset();
  context().progress();
  return 0;
}
