// An ordered set of ranks that talk over UCX: forming it, messages, signals, windows, memory, and how it ends.
#pragma once

#include <roda/sdk/clock.hpp>
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

  bool test() {
    if (state_.is_broken()) act_on_abort();
    const auto fail = [this](const sdk::Failure& failure) {
      abort(failure);
      act_on_abort();
    };
    return state_.form([this] { return advance(); }, [this] { return state_.late(missing()); }, fail);
  }
  int progress() {
    if (worker_ == nullptr) return 0;
    if (state_.is_broken()) return finish_abort();
    const int handled = worker_->progress();
    if (someone_left_) cancel_receives_from_leavers();
    return handled;
  }
  bool arm() {
    if (worker_ == nullptr) return true;
    // What an abort ends inside UCX may end without an event.
    return !state_.is_broken() && worker_->arm();
  }
  // True when what has ended goes on without this process.
  //
  // Over TCP, UCX ends a send when its last bytes lie in a buffer of its own; they leave when the worker makes
  // progress. Asking UCX to flush its interfaces tells when these buffers are empty. Asking it to flush an endpoint
  // would say more, but is a round trip over TCP, and never ends once the peer has all it wanted and makes no more
  // progress.
  bool settle() {
    if (is_settled_ || worker_ == nullptr || !state_.works() || !context_.in_owner()) return true;
    if (someone_is_owed_) ask_for_last_words();
    if (outbox_.untaken() != 0) return false;
    if (some_buffer_ && !buffers_are_empty()) return false;
    return is_settled_ = true;
  }
  void abort(const sdk::Failure& cause) {
    state_.abort(cause);
    context_.ring();
  }
  bool is_quiet(const void* base, std::size_t bytes) {
    if (state_.is_broken() && worker_ != nullptr) finish_abort();
    if (state_.is_broken()) return worker_ == nullptr;
    const bool in_window = std::ranges::any_of(
        windows_, [&](const Window& window) { return sdk::overlaps(window.base, window.bytes, base, bytes); });
    return !in_window && !requests_.touches(base, bytes);
  }

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
  std::int32_t signal(int to, std::uint32_t index, std::uint64_t value) {
    Peer& peer = admit(to);
    state_.check_index(index, kSignals, "signal");
    if (peer.untaken != 0) return RODA_AGAIN;
    announce_windows(peer);
    say(peer, Word::kSignal, index, value);
    return RODA_OK;
  }
  std::uint64_t signal_value(int peer, std::uint32_t index) const {
    return peers_[static_cast<std::size_t>(peer)].signals[index];
  }

  // --- windows ---
  std::uint32_t window_count() const { return kWindows; }
  void window_open(std::uint32_t slot, void* base, std::size_t bytes, const roda_memory* memory);
  void window_close(std::uint32_t slot) {
    if (slot >= kWindows || library_ == nullptr) return;
    Window& window = windows_[slot];
    if (window.own != nullptr) library_->unmap(window.own);
    window = Window{.version = ++windows_version_};
  }

  // --- memory ---
  void memory_alloc(std::size_t bytes, roda_memory* memory) {
    if (!state_.works()) refuse(state_.rank());
    memories_->allocate(bytes, memory);
  }
  void memory_free(roda_memory* memory) { memories_->free(memory); }
  void memory_register(roda_memory* memory) {
    if (!state_.works()) refuse(state_.rank());
    memories_->add(*memory);
  }
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

  // --- forming ---
  void check_identities();
  bool advance();
  void connect(Peer& peer, const char* address);
  bool greet();
  std::vector<int> missing() const {
    if (step_ != Step::kHellos) return gather_.missing();
    for (const Peer& peer : peers_) {
      if (peer.rank != state_.rank() && (!peer.said_hello || !peer.is_ready)) return {peer.rank};
    }
    return {};
  }
  // Called by UCX's progress, with the connection in a state where nothing may be done about it.
  static void on_error(void* user, ucp_ep_h, ucs_status_t status) {
    auto* peer = static_cast<Peer*>(user);
    peer->lost = status;
    if (peer->has_left) return;
    Group& group = *peer->group;
    const sdk::Failure why = failure(status, "the connection to " + group.describe(*peer) + " broke", peer->world_rank);
    group.abort({RODA_ERR_PEER, why.what(), why.rank()});
  }
  static ucs_status_t on_control(void* self, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t*);
  void take(const ControlHeader& header, const char* data, std::size_t bytes);

  // --- messages ---
  Request* begin(Request::Kind kind, Peer& peer, const void* data, std::size_t bytes, const roda_memory* memory);
  void post_receive(Request* receive, std::uint64_t wire);
  // UCX's answer to a call that has a callback of the request.
  static void note(Request* request, ucs_status_ptr_t handle) {
    if (!UCS_PTR_IS_PTR(handle)) {
      leave_ucx(request, UCS_PTR_RAW_STATUS(handle), request->kind == Request::Kind::kReceive ? 0 : request->bytes);
    } else if (request->in_ucx != 0) {
      request->handle = handle;
    }
  }
  // Ends what UCX ended at once; keeps the rest.
  std::int32_t keep(Request* started, Request** request) {
    if (!started->is_pending()) return collect(*started);
    *request = started;
    return RODA_OK;
  }
  std::uint64_t number_for(Peer& peer, std::uint64_t tag) {
    const std::uint64_t number = peer.numbers_used++;
    say(peer, Word::kNumber, tag, number);
    return tags_.numbered(state_.rank(), number);
  }
  void number_arrived(Peer& peer, std::uint64_t tag, std::uint64_t number);

  // --- how operations end ---
  static void on_end(void* handle, ucs_status_t status, void* user) {
    auto* request = static_cast<Request*>(user);
    leave_ucx(request, status, request->bytes);
    ucp.request_free(handle);
  }
  static void on_received(void* handle, ucs_status_t status, const ucp_tag_recv_info_t* info, void* user) {
    leave_ucx(static_cast<Request*>(user), status, info->length);
    ucp.request_free(handle);
  }
  // UCX is through with it.
  static void leave_ucx(Request* request, ucs_status_t status, std::size_t received);
  std::int32_t collect(Request& request) {
    const sdk::Failure end = end_of(request);
    requests_.give_back(request);
    if (end.code() != RODA_OK) throw end;
    return RODA_OK;
  }
  sdk::Failure end_of(const Request& request) const;

  // --- signals and windows ---
  //
  // A signal is a control message, so it wakes a sleeper, whatever carries it. Windows are told to a peer with the next
  // signal to it, which is when the contract lets it use them: the key travels once per peer and opening, in front of
  // the signal. What a rank wrote before a signal is visible with it, because a put has ended only when a flush said
  // that it reached the peer's memory, and the messages of a pair are taken in their order.
  RemoteWindow& remote_window(Peer& peer, std::uint32_t slot, std::size_t offset, std::size_t bytes);
  void say(Peer& peer, Word word, std::uint64_t a = 0, std::uint64_t b = 0, std::uint64_t c = 0,
           const std::vector<char>& data = {}) {
    const ControlHeader header{word, state_.rank(), peer.control_sent++, a, b, c};
    outbox_.send(peer.endpoint, header, data.data(), data.size(), &peer.untaken);
  }
  void announce_windows(Peer& peer) {
    if (peer.announced_version == windows_version_) return;
    peer.announced_version = windows_version_;
    for (std::uint32_t slot = 0; slot < kWindows; ++slot) {
      const Window& window = windows_[slot];
      if (peer.announced[slot] == window.version) continue;
      peer.announced[slot] = window.version;
      say(peer, Word::kWindow, slot, reinterpret_cast<std::uint64_t>(window.base), window.bytes, window.key);
    }
  }
  // Called by UCX's progress.
  void window_arrived(Peer& peer, const ControlHeader& header, const char* key, std::size_t bytes) {
    if (header.a >= kWindows) return;
    RemoteWindow& window = peer.windows[header.a];
    if (window.key != nullptr) ucp.rkey_destroy(window.key);
    window = {header.b, header.c, nullptr};
    if (bytes == 0) return;
    check(ucp.ep_rkey_unpack(peer.endpoint, key, &window.key), "the key of a window of " + describe(peer));
  }

  // --- settling ---
  // The receiver of a long message has the last word, "I have it", which UCX keeps back while a lane is full. It takes
  // no other message for that lane before it; so a message of no meaning that it has taken says that the word is out.
  void ask_for_last_words() {
    someone_is_owed_ = false;
    for_each_peer([this](Peer& peer) {
      if (!peer.is_owed) return;
      peer.is_owed = false;
      if (peer.has_left || peer.lost != UCS_OK) return;
      say(peer, Word::kNothing);
      context_.stay_awake();
    });
  }
  bool buffers_are_empty();

  // --- the end ---
  void act_on_abort() {
    if (worker_ == nullptr || !context_.in_owner() || !state_.take_abort()) return;
    acted_ns_ = sdk::now_ns();
    requests_.for_each_pending([this](Request& request) { cancel(&request); });
    // UCX 1.13 ends the process (an assertion) when an endpoint is closed while it asks its peer over datagrams to wire
    // up.
    left_behind_ = !state_.is_formed() &&
                   std::ranges::any_of(peers_, [](const Peer& peer) { return peer.lanes.meets_by_datagrams; });
    if (!left_behind_) close_endpoints();
  }
  void cancel(Request* request) {
    if (request->is_parked) {
      request->is_parked = false;
      request->status = UCS_ERR_CANCELED;
      std::erase(request->peer->numbered[request->tag].parked, request);
      requests_.finish(*request);
    } else if (request->in_ucx != 0 && request->kind == Request::Kind::kReceive) {
      ucp.request_cancel(worker_->get(), request->handle);
    }
  }
  void cancel_receives_from_leavers() {
    someone_left_ = false;
    requests_.for_each_pending([this](Request& request) {
      if (request.peer->has_left) cancel(&request);
    });
  }
  void close_endpoints();
  int finish_abort();
  void drop_worker(bool is_closed);
  void say_goodbye();
  template <typename Done>
  void progress_until(Done&& done, std::uint64_t limit_ns);

  // What every operation begins with: the group is sound and formed, the peer is there.
  Peer& admit(int peer) {
    if (!state_.works() || !state_.is_peer(peer)) refuse(peer);
    Peer& with = peers_[static_cast<std::size_t>(peer)];
    if (with.has_left) refuse(peer);
    is_settled_ = false;
    return with;
  }
  [[noreturn]] void refuse(int peer) {
    if (state_.is_broken()) act_on_abort();
    if (!state_.works() || !state_.is_peer(peer)) state_.refuse(peer);
    throw state_.has_left(peer);
  }
  std::string describe(const Peer& peer) const { return state_.describe(peer.rank); }
  template <typename Body>
  void for_each_peer(Body&& body) {
    for (Peer& peer : peers_) {
      if (peer.rank != state_.rank()) body(peer);
    }
  }

  Context& context_;
  sdk::GroupState state_;
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
