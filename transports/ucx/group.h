// An ordered set of ranks that talk over UCX: forming it, messages, signals, windows, memory, and how it ends.
#pragma once

#include <roda/sdk/clock.hpp>
#include <roda/sdk/exchange.hpp>
#include <roda/sdk/group_state.hpp>
#include <roda/sdk/request_table.hpp>

#include <deque>
#include <unordered_map>

#include "transports/ucx/context.h"
#include "transports/ucx/library.h"
#include "transports/ucx/wire.h"

namespace roda::ucx {

struct Peer;

// One pending operation of a group.
//
// Pending until UCX is through with it: UCX's callbacks count `in_ucx` down, and may touch the memory until it is 0.
struct Request : sdk::PendingRequest {
  enum class Kind : std::uint8_t { kSend, kReceive, kGet, kPut };

  Kind kind = Kind::kSend;
  std::uint8_t in_ucx = 0;  // callbacks that are still to come: a put has one for the flush behind it, too
  bool is_parked = false;   // a receive whose number on the wire is not known yet
  Peer* peer = nullptr;
  ucp_mem_h memory = nullptr;  // the registration that it lies in, if that is known
  ucs_memory_type_t type = UCS_MEMORY_TYPE_HOST;
  void* handle = nullptr;  // UCX's
  ucs_status_t status = UCS_OK;
  std::size_t received = 0;
  sdk::ProgressLimit limit;  // on its peer's events
};

inline constexpr std::uint32_t kSignals = 128;
inline constexpr std::uint32_t kWindows = 64;

// A window of the peer's.
struct RemoteWindow {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  ucp_rkey_h key = nullptr;
};

// Messages of one tag that did not fit on the wire: the numbers announced for them, or the receives that wait for one.
struct NumberedTag {
  std::deque<std::uint64_t> numbers;
  std::deque<Request*> parked;
};

// Another member of a group as this rank sees it: its endpoint, what it said, and what was said to it.
struct Peer {
  Group* group = nullptr;
  int rank = 0;
  int world_rank = 0;
  ucp_ep_h endpoint = nullptr;

  bool said_hello = false;
  bool was_answered = false;   // our kReady is on its way
  bool is_ready = false;       // it has our hello
  bool has_left = false;       // its goodbye came
  bool is_owed = false;        // the last word of a long message from it may still wait here, in front of a direct lane
  ucs_status_t lost = UCS_OK;  // why the connection broke
  Lanes lanes;
  std::uint64_t moves = 0;  // events with this peer

  Inbox inbox;
  std::uint64_t control_sent = 0;
  int untaken = 0;  // control messages to it that UCX has not taken yet

  std::vector<std::uint64_t> signals = std::vector<std::uint64_t>(kSignals);
  std::vector<RemoteWindow> windows = std::vector<RemoteWindow>(kWindows);
  std::vector<std::uint64_t> announced = std::vector<std::uint64_t>(kWindows);  // versions of our windows
  std::uint64_t announced_version = 0;

  std::unordered_map<std::uint64_t, NumberedTag> numbered;
  std::uint64_t numbers_used = 0;
};

// Threads: as the ABI says, one at a time; abort() any. Throws sdk::Failure where it doesn't return a code.
class Group {
 public:
  using Request = ucx::Request;

  Group(Context& context, const roda_group_desc& desc);
  ~Group();

  bool test();
  int progress();
  bool arm();
  // True when what has ended needs no progress any more.
  bool settle();
  void abort(const sdk::Failure& cause);
  bool is_quiet(const void* base, std::size_t bytes);

  // --- messages, and gets and puts on windows: RODA_OK, with *request null when it is done already ---
  std::int32_t send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory* memory,
                    Request** request);
  std::int32_t receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory* memory,
                       Request** request);
  std::int32_t get(int peer, std::uint32_t slot, std::size_t offset, void* to, std::size_t bytes, Request** request);
  std::int32_t put(int peer, std::uint32_t slot, std::size_t offset, const void* from, std::size_t bytes,
                   Request** request);
  std::int32_t test(Request* request);

  // --- signals ---
  std::uint32_t signal_count() const { return kSignals; }
  // RODA_AGAIN while UCX has not taken the one before.
  std::int32_t signal(int peer, std::uint32_t index, std::uint64_t value);
  std::uint64_t signal_value(int peer, std::uint32_t index) const {
    return peers_[static_cast<std::size_t>(peer)].signals[index];
  }

  // --- windows ---
  std::uint32_t window_count() const { return kWindows; }
  void window_open(std::uint32_t slot, void* base, std::size_t bytes, const roda_memory* memory);
  void window_close(std::uint32_t slot);

  // --- memory ---
  void memory_alloc(std::size_t bytes, roda_memory* memory);
  void memory_free(roda_memory* memory) { memories_->free(memory); }
  void memory_register(roda_memory* memory);
  void memory_deregister(roda_memory* memory) { memories_->remove(*memory); }

 private:
  enum class Step { kIdentities, kLengths, kAddresses, kHellos };
  // A window of ours.
  struct Window {
    void* base = nullptr;
    std::size_t bytes = 0;
    ucp_mem_h own = nullptr;  // registered for this window alone
    std::vector<char> key;
    std::uint64_t version = 0;
  };

  // --- forming.cc ---
  void check_identities();
  bool advance();
  void gather(const char* key, const void* value, std::size_t bytes);
  void connect(Peer& peer, const char* address);
  bool greet();
  std::vector<int> missing() const;
  static void on_error(void* peer, ucp_ep_h, ucs_status_t status);
  static ucs_status_t on_control(void* self, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t*);
  void take(const ControlHeader& header, const char* data, std::size_t bytes);

  // --- messages.cc ---
  Request* begin(Request::Kind kind, Peer& peer, const void* data, std::size_t bytes, const roda_memory* memory);
  void post_receive(Request* receive, std::uint64_t wire);
  // UCX's answer to a call that has a callback of the request.
  static void note(Request* request, ucs_status_ptr_t handle);
  // Ends what UCX ended at once; keeps the rest.
  std::int32_t keep(Request* started, Request** request) {
    if (!started->is_pending()) return collect(*started);
    *request = started;
    return RODA_OK;
  }
  std::uint64_t number_for(Peer& peer, std::uint64_t tag);
  void number_arrived(Peer& peer, std::uint64_t tag, std::uint64_t number);

  // --- messages.cc: how operations end ---
  static void on_end(void* handle, ucs_status_t status, void* request);
  static void on_received(void* handle, ucs_status_t status, const ucp_tag_recv_info_t* info, void* request);
  // UCX is through with it.
  static void leave_ucx(Request* request, ucs_status_t status, std::size_t received);
  std::int32_t collect(Request& request);
  sdk::Failure end_of(const Request& request) const;

  // --- messages.cc: windows ---
  RemoteWindow& remote_window(Peer& peer, std::uint32_t slot, std::size_t offset, std::size_t bytes);
  void say(Peer& peer, Word word, std::uint64_t a = 0, std::uint64_t b = 0, std::uint64_t c = 0,
           const std::vector<char>& data = {});
  void announce_windows(Peer& peer);
  void window_arrived(Peer& peer, const ControlHeader& header, const char* key, std::size_t bytes);

  // --- group.cc: settling ---
  void ask_for_last_words();
  bool buffers_are_empty();

  // --- group.cc: the end ---
  void act_on_abort();
  void cancel(Request* request);
  void cancel_receives_from_leavers();
  void close_endpoints();
  int finish_abort();
  void drop_worker(bool is_closed);
  void say_goodbye();
  template <typename Done>
  void progress_until(Done&& done, std::uint64_t patience_ns);

  // What every operation begins with: the group is sound and formed, the peer is there.
  Peer& admit(int peer) {
    if (!state_.works() || !state_.is_peer(peer)) refuse(peer);
    Peer& with = peers_[static_cast<std::size_t>(peer)];
    if (with.has_left) refuse(peer);
    is_settled_ = false;
    return with;
  }
  [[noreturn]] void refuse(int peer);
  std::string describe(const Peer& peer) const { return state_.describe(peer.rank); }
  template <typename Body>
  void for_each_peer(Body&& body) {
    for (Peer& peer : peers_) {
      if (peer.rank != state_.rank()) body(peer);
    }
  }

  Context& context_;
  sdk::GroupState state_;
  const roda_exchange exchange_;
  const TagLayout tags_;

  Step step_ = Step::kIdentities;
  sdk::Allgather gather_;
  const Library* library_ = nullptr;
  std::unique_ptr<Worker> worker_;
  std::vector<char> address_;
  std::vector<Peer> peers_;
  Outbox outbox_;

  std::unique_ptr<Memories> memories_;
  std::vector<Window> windows_ = std::vector<Window>(kWindows);
  std::uint64_t windows_version_ = 0;

  std::uint64_t acted_ns_ = 0;  // on an abort
  bool left_behind_ = false;    // with the worker as it is
  bool someone_left_ = false;   // receives from a rank that left may wait to be cancelled

  bool is_settled_ = false;       // nothing was done since settle() said so
  bool someone_is_owed_ = false;  // see Peer::is_owed
  bool some_buffer_ = true;       // lanes of the group do
  void* flushing_ = nullptr;      // UCX's request while the worker flushes its interfaces

  sdk::RequestTable<Request> requests_;
};

}  // namespace roda::ucx
