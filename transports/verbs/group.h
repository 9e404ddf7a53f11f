// An ordered set of ranks connected by RDMA: forming it, signals, windows, memory, and how it ends.
//
// Threads: as the ABI says, one at a time; abort() any. Throws sdk::Failure where it doesn't return a code.
#pragma once

#include <roda/sdk/exchange.hpp>

#include "transports/verbs/context.h"
#include "transports/verbs/link.h"
#include "transports/verbs/messages.h"
#include "transports/verbs/wires.h"

namespace roda::verbs {

inline constexpr std::uint32_t kSignals = 128;
inline constexpr std::uint32_t kWindows = 64;

class Group {
 public:
  using Request = verbs::Request;

  Group(Context& context, const roda_group_desc& desc);
  ~Group();

  bool test();
  int progress();
  void arm();
  // While it is true silent peers are asked for a sign of life now and then.
  bool is_watching() const;
  void ask_silent_peers();
  // The queue pair or the whole port broke, in the device's words. Null: the port.
  void on_device_event(const Device& device, const ibv_qp* pair, const std::string& what);

  // Any thread. The engine acts on it at its next call.
  void abort(const sdk::Failure& cause);
  bool is_quiet(const void* base, std::size_t bytes);

  std::int32_t send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory* memory,
                    Request** request) {
    return messages_.send(admit(peer), tag, data, bytes, memory, request);
  }
  std::int32_t receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory* memory,
                       Request** request) {
    return messages_.receive(admit(peer, true), tag, data, bytes, memory, request);
  }
  std::int32_t get(int peer, std::uint32_t slot, std::size_t offset, void* to, std::size_t bytes, Request** request) {
    return move(Request::Kind::kGet, peer, slot, offset, to, bytes, request);
  }
  std::int32_t put(int peer, std::uint32_t slot, std::size_t offset, const void* from, std::size_t bytes,
                   Request** request) {
    return move(Request::Kind::kPut, peer, slot, offset, const_cast<void*>(from), bytes, request);
  }
  std::int32_t test(Request* request);

  std::uint32_t signal_count() const { return kSignals; }
  void signal(int peer, std::uint32_t index, std::uint64_t value);
  std::uint64_t signal_value(int peer, std::uint32_t index) const {
    return peers_[static_cast<std::size_t>(peer)].signals[index];
  }

  std::uint32_t window_count() const { return kWindows; }
  // Over memory of memory_alloc or memory_register only: registering other memory for as long as a window is open would
  // outlast the memory.
  void window_open(std::uint32_t slot, void* base, std::size_t bytes, const roda_memory* memory);
  void window_close(std::uint32_t slot);

  void memory_alloc(std::size_t bytes, roda_memory* memory);
  void memory_free(roda_memory* memory);
  void memory_register(roda_memory* memory);
  void memory_deregister(roda_memory* memory);

  // --- what wires tell ---
  void on_record(Link& link, const Record& record, const std::byte* data);
  // The peer has written its part, on that rail, of the long message with this id.
  void on_written(Link& link, std::size_t rail, std::uint32_t id) { messages_.on_written(link, rail, id); }
  // One write or read of the request with this id has ended.
  void on_moved(Link& link, std::uint32_t id) { messages_.on_moved(link, id); }
  void on_left(Link& link) { messages_.end_those_of(link, state_.has_left(link.rank)); }

 private:
  enum class Phase { kHello, kOpen, kConnect, kUp };
  struct Window {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::array<std::uint32_t, kMaxRails> keys{};
  };
  struct Peer {
    std::vector<std::uint64_t> signals = std::vector<std::uint64_t>(kSignals);
    std::vector<Window> windows = std::vector<Window>(kWindows);
  };

  // forming.cc
  bool form_on();
  void gather(const char* key, const void* value, std::size_t bytes);
  void say_hello();
  void make_wires();
  void publish_cards();
  bool connect_some();
  void finish_forming();

  // What every operation begins with: the group is sound and formed, the peer is there, or (`or_left`) has left.
  Link& admit(int peer, bool or_left = false);
  [[noreturn]] void refuse(int peer);
  std::int32_t move(Request::Kind kind, int peer, std::uint32_t slot, std::size_t offset, void* data, std::size_t bytes,
                    Request** request);
  void act_on_abort();

  Context& context_;
  sdk::GroupState state_;
  const roda_exchange exchange_;

  Phase phase_ = Phase::kHello;
  sdk::Allgather gather_;
  std::size_t connected_ = 0;

  std::unique_ptr<Wires> wires_;  // null while there is nothing to connect
  Messages messages_;
  std::vector<Peer> peers_;
  std::vector<Window> own_windows_ = std::vector<Window>(kWindows);

  std::uint64_t watched_until_ns_ = 0;
};

}  // namespace roda::verbs
