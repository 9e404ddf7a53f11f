// Messages with one peer over its Gloo pair.
//
// Gloo offers no way to ask whether a buffer is done without blocking, so two threads per peer wait: one sends, one
// receives. Messages travel as a stream in the order they were sent; the receiving thread takes each as it comes,
// straight into the posted receive, or into memory of its own until one is posted. So neither thread ever waits for the
// application of the other side, and the order in which the two sides post cannot deadlock.
#pragma once

#include <gloo/context.h>
#include <roda/sdk/error.hpp>

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "transports/gloo/request.h"
#include "transports/gloo/waits.h"

namespace roda::gloo {

// Makes what the link's requests end with out of a roda_code and a text; it names the peer and the group.
using Explain = std::function<sdk::Failure(int32_t code, const std::string& text)>;

// send(), receive(), withdraw(): one thread at a time. give_up(): any thread; it, and poisoning the mesh, come before
// the destructor, which joins the threads.
class Link {
 public:
  // `notify` is called after a request ended, from the link's threads.
  Link(std::shared_ptr<::gloo::Context> context, int peer, Explain explain, std::function<void()> notify);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // False: too many are queued, try again.
  bool send(Request* request);
  // True: done at once. Messages that came before the link broke can still be received.
  bool receive(Request* request);
  // Gives up a receive that nothing arrives for, or a send that did not begin. False: its data are moving.
  bool withdraw(Request* request);
  // Ends both threads' waits.
  void give_up() { waits_.give_up(); }

 private:
  static constexpr std::size_t kInlineBytes = 8192;
  static constexpr std::size_t kQueueLimit = 1024;
  static constexpr std::size_t kFrames = 4;

  // What goes ahead of every message; a short one is in it.
  struct Frame {
    std::uint64_t tag;
    std::uint64_t bytes;
    std::array<char, kInlineBytes> payload;
  };
  static constexpr std::size_t kHeaderBytes = offsetof(Frame, payload);

  // A message that came, or is coming in, before it was asked for.
  struct Unexpected {
    std::uint64_t tag = 0;
    std::vector<char> data;
    bool complete = false;
    Request* taker = nullptr;  // asked for it while it was coming in
  };

  void send_loop();
  void receive_loop();
  void send_one(Request* request, Frame* frame);
  void take(const Frame& frame);
  void take_long(std::unique_lock<std::mutex>& lock, const Frame& frame, Request* request);
  void receive_payload(void* data, std::size_t bytes);
  Request* match(std::uint64_t tag);
  void deliver(Request* request, const void* data, std::size_t bytes);
  enum class Direction { kSend, kReceive };
  void wait(::gloo::transport::UnboundBuffer* buffer, Direction direction);
  void fail(const std::string& text);
  sdk::Failure mismatch(const Request& request, std::size_t bytes) const;

  const std::shared_ptr<::gloo::Context> context_;
  const int peer_;
  const Explain explain_;
  const std::function<void()> notify_;

  Waits waits_;
  std::mutex mutex_;
  std::condition_variable outgoing_changed_;
  bool stopping_ = false;
  std::unique_ptr<sdk::Failure> broken_;
  std::deque<Request*> outgoing_;
  std::deque<Request*> receives_;
  std::list<Unexpected> unexpected_;

  std::thread sender_;
  std::thread receiver_;
};

}  // namespace roda::gloo
