// Messages with one peer over its Gloo pair, moved on by whoever asks about them; streams of big ones by Gloo's own
// thread (MessageStream).
//
// Short messages travel as frames into a ring of posted receives, and wait on the receiver's side until they are asked
// for. Gloo's sends are a rendezvous: data leave once the receiver has said that a buffer is posted. For a long message
// that buffer is the user's own, posted when it is asked for, on a slot made of tag and length, so that no message but
// the data themselves is on the way; the sender keeps it until then. Whichever side comes first, nobody waits in a
// call.
//
// Equal tags keep their order: frames share one slot, equal lengths share one slot, and any other mixture of one tag is
// sent one by one. So the first receive of a tag is always the one that the sender's oldest message of that tag is for.
// If their lengths differ they never meet: a receive that nothing came for asks the sender, who refuses it by name.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "transports/gloo/collectives.h"
#include "transports/gloo/mesh.h"

namespace roda::gloo {

// What a short message travels in, and the words that the two ends of a link exchange.
struct FrameHeader {
  enum class Kind : std::uint32_t {
    kMessage,  // and its data
    kAsk,      // a receive of this tag and length waits; `number` is the question's
    kRefuse,   // the message for the receive of question `number` has this length instead
  };

  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
  Kind kind = Kind::kMessage;
  std::uint32_t number = 0;

  // Members may be trusted to be members, not to be sane.
  bool is_sane() const;
};

struct Frame {
  static constexpr std::size_t kPayloadBytes = 8192;

  FrameHeader header;
  std::array<char, kPayloadBytes> payload;

  std::size_t length() const { return sizeof header + (header.kind == FrameHeader::Kind::kMessage ? header.bytes : 0); }
};
static_assert(offsetof(Frame, payload) == sizeof(FrameHeader));

inline bool is_short(std::size_t bytes) { return bytes <= Frame::kPayloadBytes; }

inline bool FrameHeader::is_sane() const {
  return kind == Kind::kMessage ? is_short(bytes) : kind == Kind::kAsk || kind == Kind::kRefuse;
}

// A frame with Gloo's buffer over it.
struct FrameBuffer {
  explicit FrameBuffer(Mesh& mesh) : buffer(mesh.context()->createUnboundBuffer(&frame, sizeof frame)) {}

  Frame frame;
  Buffer buffer;
};

// Slots of Gloo's. Its collectives use the lower 60 bits at most (gloo/types.h).
constexpr std::uint64_t kFrameSlot = 0x70ULL << 56;

// The slot of a long message. Tags of one length share a slot only if they differ in what the last step drops, so in
// one of 2^63 cases; the mixing is that of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
// Generators, 2014).
inline std::uint64_t long_slot(std::uint64_t tag, std::uint64_t bytes) {
  const auto mix = [](std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  };
  return mix(tag ^ mix(bytes)) | 1ULL << 63;
}

// Big messages of one direction that follow each other closely: Gloo's own thread moves them best.
//
// That thread spins on a pair's lock while somebody else is at the pair. For a single message it is worth that: it ends
// sooner if whoever waits for it reads it. A stream loses what the spinning takes, a core where the thread has one.
//
// The link's caller only.
class MessageStream {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kBig = std::size_t{64} << 10;

  // `pending`: how many big messages are, counted to kEnough. `flows` is asked once they are enough: do data lie in the
  // socket? True from then on until none is pending.
  static constexpr int kEnough = 2;
  template <typename Flows>
  bool runs(int pending, Flows&& flows) {
    if (pending == 0) runs_ = false;
    if (pending >= kEnough && !runs_ && flows()) {
      runs_ = true;
      since_ = Clock::now();
      ended_ = 0;
    }
    return runs_;
  }

  void note_end(std::size_t bytes) { ended_ += bytes; }

  // When a caller who sleeps from `now` on should look after the oldest message, of `bytes`: early, and then ever less
  // often while nothing comes. What has ended since the last look tells the pace; a quicker one is believed at once,
  // because sleeping too long makes messages look slow.
  Clock::time_point next_look(std::size_t bytes, Clock::time_point now) {
    if (ended_ > 0) {
      const double found = std::chrono::duration<double, std::nano>(now - since_).count() / static_cast<double>(ended_);
      ns_per_byte_ = std::min(found, ns_per_byte_ + (found - ns_per_byte_) / 8);
      since_ = now;
      ended_ = 0;
    }
    const auto whole = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double, std::nano>(ns_per_byte_ * static_cast<double>(bytes)));
    const auto left = since_ + whole - now;
    const auto late = std::max(whole, -left) / 8;
    return now + std::clamp<Clock::duration>(std::max(left * 7 / 8, late), kShortest, kLongest);
  }

 private:
  static constexpr std::chrono::microseconds kShortest{50}, kLongest{10'000};

  bool runs_ = false;
  Clock::time_point since_;  // the last look that found an end, or the beginning
  std::size_t ended_ = 0;    // bytes, since then
  double ns_per_byte_ = 0.2;
};

// Makes what the link's requests end with out of a roda_code and a text; it names the peer and the group.
using Explain = std::function<sdk::Failure(int32_t code, const std::string& text)>;

// One thread at a time. Gloo's pairs are closed before the destructor.
class Link {
 public:
  // `requests`: where those of send() and receive() are. `give_up`: lengths differ, and a buffer lies with Gloo that
  // can't be taken back; the group has to end.
  Link(Mesh& mesh, int peer, sdk::RequestTable<Request>& requests, Explain explain,
       std::function<void(const sdk::Failure&)> give_up)
      : mesh_(mesh), peer_(peer), requests_(requests), explain_(std::move(explain)), give_up_(std::move(give_up)) {
    for (auto& frame : ring_) frame = std::make_unique<FrameBuffer>(mesh_);
    try {
      const PipeSignalHeld held;
      for (const auto& frame : ring_) frame->buffer->recv(peer_, kFrameSlot);
    } catch (const std::exception& broken) {
      fail(broken.what());
    }
  }

  // RODA_AGAIN: too many are queued. RODA_OK: it has ended, or is pending.
  std::int32_t send(Request& request);
  // Messages that came before the link broke can still be received.
  std::int32_t receive(Request& request);
  // Gives up what Gloo has not been given. False: only closing the pairs ends it.
  bool withdraw(Request* request);

  // Moves everything on; returns how many things ended or came. Sets `*data_came` if anything was there to be read.
  int pump(bool* data_came);
  // After the pairs were closed, when nobody touches the requests' memory any more: they all end with `cause`. Returns
  // how many.
  int end_all(const sdk::Failure& cause);
  bool is_broken() const { return broken_ != nullptr; }
  // Asked by a caller who is about to sleep. Nothing: messages end on the caller's thread. Else a stream is left to
  // Gloo's own, and the caller need not look before that time.
  std::optional<Clock::time_point> rest();

 private:
  static constexpr std::size_t kQueueLimit = 1024;
  static constexpr std::size_t kFrames = 16;
  static constexpr std::size_t kFramesOut = 64;
  static constexpr std::size_t kAsksKept = 1024;
  // Words between the pairs and a few frames are not a stream.
  static constexpr std::size_t kFewBytes = 16 << 10;
  // A caller who reads a big message does not sleep in its gaps.
  static constexpr std::chrono::microseconds kGap{100};
  // Receives that nothing came for in this time are asked about.
  static constexpr std::chrono::milliseconds kAskAfter{50};

  struct Sending {
    Request* request = nullptr;          // null: a word between the links
    std::unique_ptr<FrameBuffer> frame;  // of a short one that has started
    Buffer data;                         // of a long one that has started

    bool has_started() const { return frame != nullptr || data != nullptr; }
    bool is_done() const;  // true once
  };
  struct Receiving {
    Request* request = nullptr;
    Buffer data;              // of a long one
    std::uint32_t asked = 0;  // the number of the question about it
  };
  struct Unexpected {
    std::uint64_t tag = 0;
    std::vector<char> data;
  };
  using Sends = std::deque<Sending>;
  using Receives = std::deque<Receiving>;

  // Messages are left to Gloo's thread for now.
  bool is_gloos_to_move() {
    const bool comes = incoming_.runs(count_big(receives_), [&] { return mesh_.unread_bytes(peer_) > kFewBytes; });
    const bool goes = outgoing_.runs(count_big(sends_), [&] { return mesh_.unsent_bytes(peer_) > kFewBytes; });
    // What is short would wait for somebody to look.
    return (comes || goes) && std::all_of(receives_.begin(), receives_.end(), is_big<Receiving>);
  }
  bool drive() {
    const bool came = mesh_.drive(peer_);
    if (count_big(receives_) == 0) return came;
    const auto now = Clock::now();
    if (came) last_data_ = now;
    return now - last_data_ < kGap;
  }

  template <typename Message>
  static bool is_big(const Message& message) {
    return message.request != nullptr && message.request->bytes >= MessageStream::kBig;
  }
  template <typename Messages>
  static int count_big(const Messages& pending) {
    int count = 0;
    for (auto message = pending.begin(); message != pending.end() && count < MessageStream::kEnough; ++message)
      count += is_big(*message) ? 1 : 0;
    return count;
  }

  // As the sender.
  bool must_wait(Sends::const_iterator message) const {
    const Request& request = *message->request;
    if (is_short(request.bytes) && idle_frames_.empty() && frames_made_ >= kFramesOut) return true;
    return std::any_of(sends_.begin(), message, [&](const Sending& earlier) { return goes_after(earlier, request); });
  }
  // Whether a request has to wait for an earlier one of its tag: frames keep their order among themselves, and so do
  // long messages of one length.
  bool goes_after(const Sending& earlier, const Request& request) const {
    if (earlier.request == nullptr || earlier.request->tag != request.tag) return false;
    const bool one_slot =
        is_short(request.bytes) ? is_short(earlier.request->bytes) : earlier.request->bytes == request.bytes;
    return !earlier.has_started() || !one_slot;
  }
  // True when it is done already; to be asked only once.
  bool start(Sending* message);
  void start_waiting() {
    for (auto message = sends_.begin(); message != sends_.end() && waiting_ > 0;) {
      if (message->has_started() || must_wait(message)) {
        ++message;
        continue;
      }
      --waiting_;
      message = start(&*message) ? end(message) : std::next(message);
    }
  }
  Sends::iterator end(Sends::iterator message) {
    if (message->request != nullptr) requests_.finish(*message->request);
    recycle(&*message);
    return sends_.erase(message);
  }
  std::unique_ptr<FrameBuffer> take_idle_frame() {
    if (idle_frames_.empty()) {
      ++frames_made_;
      return std::make_unique<FrameBuffer>(mesh_);
    }
    std::unique_ptr<FrameBuffer> frame = std::move(idle_frames_.back());
    idle_frames_.pop_back();
    return frame;
  }
  void recycle(Sending* message) {
    if (message->frame != nullptr) idle_frames_.push_back(std::move(message->frame));
  }
  int end_sends();
  void say(const FrameHeader& words) {
    const PipeSignalHeld held;
    Sending& message = sends_.emplace_back();
    message.frame = take_idle_frame();
    message.frame->frame.header = words;
    message.frame->buffer->send(peer_, kFrameSlot, 0, message.frame->frame.length());
  }
  void answer(const FrameHeader& question);
  void answer_late(const Request& request) {
    const auto question =
        std::find_if(asked_.begin(), asked_.end(), [&](const FrameHeader& asked) { return asked.tag == request.tag; });
    if (question == asked_.end()) return;
    const FrameHeader asked = *question;
    asked_.erase(question);
    if (asked.bytes == request.bytes) return;
    say({asked.tag, request.bytes, FrameHeader::Kind::kRefuse, asked.number});
  }

  // As the receiver.
  int end_long_receives();
  int take_frames();
  void take(const Frame& frame);
  void take_message(const Frame& frame);
  // A receive that has been satisfied since its question was asked is here no more.
  void take_refusal(const FrameHeader& refusal) {
    const auto receive = std::find_if(receives_.begin(), receives_.end(),
                                      [&](const Receiving& pending) { return pending.asked == refusal.number; });
    if (receive != receives_.end()) refuse(receive, refusal.bytes);
  }
  void ask_about_late_ones();
  void refuse(Receives::iterator receive, std::uint64_t bytes) {
    const sdk::Failure failure = mismatch(*receive->request, bytes);
    if (receive->data != nullptr || !is_short(bytes)) return give_up_(failure);
    requests_.finish(*receive->request, failure);
    receives_.erase(receive);
  }
  Receives::iterator first_of(std::uint64_t tag) {
    return std::find_if(receives_.begin(), receives_.end(),
                        [tag](const Receiving& receive) { return receive.request->tag == tag; });
  }
  sdk::Failure mismatch(const Request& request, std::uint64_t bytes) const {
    return explain_(RODA_ERR_INVALID, "sent " + std::to_string(bytes) + " bytes where " +
                                          std::to_string(request.bytes) + " were expected");
  }

  // Ends what is pending, but for what has come already.
  int fail(const std::string& text);

  Mesh& mesh_;
  const int peer_;
  sdk::RequestTable<Request>& requests_;
  const Explain explain_;
  const std::function<void(const sdk::Failure&)> give_up_;
  std::unique_ptr<sdk::Failure> broken_;

  Sends sends_;  // in order
  std::vector<std::unique_ptr<FrameBuffer>> idle_frames_;
  std::size_t frames_made_ = 0;
  std::size_t waiting_ = 0;        // sends that have not started
  std::deque<FrameHeader> asked_;  // the peer's questions about messages that are still to come

  std::array<std::unique_ptr<FrameBuffer>, kFrames> ring_;
  std::size_t next_ = 0;  // of the ring
  Receives receives_;     // in order
  std::deque<Unexpected> unexpected_;
  MessageStream incoming_, outgoing_;
  Clock::time_point last_data_;  // read here, while a big message was pending
  std::uint32_t questions_ = 0;
  Clock::time_point next_look_;
};

}  // namespace roda::gloo
