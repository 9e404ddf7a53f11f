// One group over Gloo: forming, collectives in order on one worker thread, links for messages, and the end of all that.
#pragma once

#include <roda/sdk/exchange.hpp>
#include <roda/sdk/group_state.hpp>
#include <roda/sdk/request_pool.hpp>

#include <condition_variable>
#include <thread>

#include "transports/gloo/collectives.h"
#include "transports/gloo/context.h"
#include "transports/gloo/link.h"
#include "transports/gloo/mesh.h"

namespace roda::gloo {

// The entries are those of roda/sdk/transport.hpp. abort() from any thread, the others from the context's caller.
class Group {
 public:
  using Request = roda::gloo::Request;

  Group(Context& context, const roda_group_desc& desc);
  ~Group();

  bool test();
  // Sets the cause, unless there is one, and tears the connections down in the background.
  void abort(const sdk::Failure& cause);

  int32_t send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory*,
               Request** request) {
    return start_message(peer, tag, const_cast<void*>(data), bytes, request, &Link::send);
  }
  int32_t receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory*, Request** request) {
    return start_message(peer, tag, data, bytes, request, &Link::receive);
  }
  int32_t start(const roda_collective_args& args, Request** request);
  int32_t test(Request* request);
  bool is_quiet(const void* base, std::size_t bytes) const;

  // Moves messages on; returns how many things ended or came. Sets `*data_came` if anything was there to be read.
  int pump(bool* data_came);
  // Sees to it that data for pending messages wake the sleeper, and only those. True when there are pending ones.
  // `*rest` becomes earlier when data need nobody before then.
  bool prepare_sleep(Wakeups& wakeups, std::optional<Clock::time_point>* rest);

 private:
  // Forming, in order. "Worker" steps run on the worker thread, between exchanges that test() drives.
  enum class Step { kIdentify, kListen, kAddresses, kConnect };

  void listen();
  void connect_all();
  bool form_on();
  bool take_worker_result();

  void run_on_worker(std::function<void()> job);
  void work();
  void run_collective(Request* request);
  // Ends everything that waits on a connection. Takes a few ms per peer.
  void tear_down();
  sdk::Failure explain_collective(int collective, const std::string& text);
  sdk::Failure explain_message(int peer, int32_t code, const std::string& text);

  int32_t start_message(int peer, std::uint64_t tag, void* data, std::size_t bytes, Request** request,
                        Link::Begun (Link::*begin)(Request*));
  Link& link(int peer);
  // Once the connections are torn down; returns how many.
  int end_messages();
  // Sleeping on connections that are still there.
  void watch_links();
  void release(Request* request);

  Context* const context_;
  const std::chrono::milliseconds timeout_;
  sdk::GroupState state_;
  const roda_exchange exchange_;

  Step step_ = Step::kIdentify;
  sdk::Allgather gather_;
  Reach reach_ = Reach::kNetwork;
  std::vector<char> card_;  // to be published next, made by the worker

  std::shared_ptr<Mesh> mesh_;  // set by the worker under mutex_

  Mutex mutex_;
  std::condition_variable jobs_changed_;
  std::deque<std::function<void()>> jobs_ RODA_GUARDED_BY(mutex_);
  bool stopping_ RODA_GUARDED_BY(mutex_) = false;
  bool worker_idle_ RODA_GUARDED_BY(mutex_) = true;
  std::thread worker_;
  std::thread poisoner_;

  Waits waits_;  // of collectives
  std::atomic<bool> is_torn_down_{false};

  // The caller's thread only.
  std::vector<std::unique_ptr<Link>> links_;
  std::unique_ptr<SocketSet> sockets_ = std::make_unique<SocketSet>();
  int messages_pending_ = 0;
  bool is_watched_ = false;
  sdk::RequestPool<Request> pool_;
  std::vector<Request*> live_;
};

}  // namespace roda::gloo
