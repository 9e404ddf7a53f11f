// Our sockets, made lazy: a short send ends at once and leaves after some more calls of progress(), as with libraries
// that have buffers of their own. Who stops making progress before settle() says so loses what it sent last.
#include <roda/abi/transport.h>
#include <roda/sdk/error.hpp>
#include <roda/sdk/plugin.hpp>
#include <roda/sdk/transport.hpp>

#include <algorithm>
#include <atomic>
#include <list>
#include <vector>

#include "transports/tcp/tcp.h"

namespace roda::lazy {
namespace {

constexpr std::size_t kShort = 64u << 10;
constexpr std::size_t kMostHeld = 64;
// In turn: what a waiter still does by itself, and what the engine's own thread must do.
constexpr int kTurns[] = {1, 100};

const roda_transport& sockets() { return *roda_tcp_transport(); }

roda_error make_error() {
  roda_error error{};
  error.struct_size = sizeof error;
  error.rank = -1;
  return error;
}

template <typename Call>
int32_t checked(Call&& call) {
  roda_error error = make_error();
  const int32_t code = call(&error);
  if (code < RODA_OK) throw sdk::Failure(error);
  return code;
}

class Group;

struct Held {
  Group* group;
  int peer;
  std::uint64_t tag;
  std::vector<char> data;
  int turns;
  bool is_sent = false;
  roda_request* request = nullptr;
};

class Context {
 public:
  explicit Context(const roda_host* host) {
    checked([&](roda_error* error) { return sockets().context_create(host, &inner_, error); });
  }
  ~Context() { sockets().context_destroy(inner_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  roda_context* inner() { return inner_; }
  std::list<Held>& held() { return held_; }
  int progress();
  int event_fd() { return sockets().event_fd(inner_); }
  bool arm() { return held_.empty() && sockets().arm(inner_) == RODA_OK; }
  void disarm() {
    if (sockets().disarm != nullptr) sockets().disarm(inner_);
  }
  bool settle();
  // Whether a message to that peer waits, before `until` if that is given.
  bool waits(const Group* group, int peer, const Held* until = nullptr) const;
  int next_turns() { return kTurns[++sends_ % std::size(kTurns)]; }

 private:
  roda_context* inner_ = nullptr;
  std::list<Held> held_;
  std::size_t sends_ = 0;
};

class Group {
 public:
  using Request = roda_request;

  Group(Context& context, const roda_group_desc& desc) : context_(context), rank_(desc.rank), size_(desc.size) {
    checked([&](roda_error* error) { return sockets().group_create(context.inner(), &desc, &inner_, error); });
  }
  ~Group() {
    context_.held().remove_if([this](const Held& held) { return held.group == this; });
    sockets().group_destroy(inner_);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  roda_group* inner() { return inner_; }
  bool is_aborted() const { return is_aborted_.load(); }
  bool test() {
    return checked([&](roda_error* error) { return sockets().group_test(inner_, error); }) == RODA_OK;
  }
  void abort(const sdk::Failure& cause) {
    roda_error error = make_error();
    cause.fill(&error);
    sockets().group_abort(inner_, &error);
    is_aborted_.store(true);
  }
  bool is_quiet(const void* base, std::size_t bytes) { return sockets().quiesced(inner_, base, bytes) == 1; }

  int32_t send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory* memory,
               Request** request) {
    if (bytes > kShort || !can_hold(peer)) {
      if (context_.waits(this, peer)) return RODA_AGAIN;
      return checked(
          [&](roda_error* error) { return sockets().send(inner_, peer, tag, data, bytes, memory, request, error); });
    }
    if (context_.held().size() >= kMostHeld) return RODA_AGAIN;
    const char* from = static_cast<const char*>(data);
    context_.held().push_back({this, peer, tag, {from, from + bytes}, context_.next_turns()});
    return RODA_OK;
  }
  int32_t receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory* memory,
                  Request** request) {
    return checked(
        [&](roda_error* error) { return sockets().recv(inner_, peer, tag, data, bytes, memory, request, error); });
  }
  int32_t test(Request* request) {
    return checked([&](roda_error* error) { return sockets().request_test(inner_, request, error); });
  }

 private:
  // What is wrong with a send is told by the sockets.
  bool can_hold(int peer) {
    roda_error error = make_error();
    return peer >= 0 && peer < size_ && peer != rank_ && sockets().group_test(inner_, &error) == RODA_OK;
  }

  Context& context_;
  const int rank_;
  const int size_;
  roda_group* inner_ = nullptr;
  std::atomic<bool> is_aborted_{false};
};

bool Context::waits(const Group* group, int peer, const Held* until) const {
  for (const Held& held : held_) {
    if (&held == until) return false;
    if (held.group == group && held.peer == peer && !held.is_sent) return true;
  }
  return false;
}

// An error of a message whose send has ended is the group's, and told by its other operations.
int Context::progress() {
  int handled = sockets().progress(inner_);
  roda_error error = make_error();
  for (auto it = held_.begin(); it != held_.end();) {
    Held& held = *it;
    int32_t code = RODA_IN_PROGRESS;
    if (held.is_sent) {
      code = sockets().request_test(held.group->inner(), held.request, &error);
    } else if (--held.turns < 0 && !waits(held.group, held.peer, &held)) {
      code = sockets().send(held.group->inner(), held.peer, held.tag, held.data.data(), held.data.size(), nullptr,
                            &held.request, &error);
      held.is_sent = code == RODA_OK;
      if (held.request != nullptr && code == RODA_OK) code = RODA_IN_PROGRESS;
    }
    const bool is_over = code != RODA_IN_PROGRESS && code != RODA_AGAIN;
    handled += is_over ? 1 : 0;
    it = is_over ? held_.erase(it) : std::next(it);
  }
  return handled;
}

bool Context::settle() {
  return std::all_of(held_.begin(), held_.end(), [](const Held& held) { return held.group->is_aborted(); });
}

constexpr roda_transport kTransport = sdk::transport<Context, Group, RODA_CAP_P2P | RODA_CAP_FAULT_TOLERANT>(
    "lazy", "sockets that end sends early", RODA_PROGRESS_FD);

}  // namespace
}  // namespace roda::lazy

RODA_TRANSPORT_PLUGIN("lazy", &roda::lazy::kTransport);
