// One group over Gloo: forming, collectives in order on one worker thread, links for messages, and the end of all that.
#pragma once

#include <roda/sdk/group_state.hpp>
#include <roda/sdk/request_table.hpp>

#include <condition_variable>
#include <thread>

#include "plugins/base/helper_thread.h"
#include "plugins/base/local_address.h"
#include "transports/gloo/collectives.h"
#include "transports/gloo/context.h"
#include "transports/gloo/link.h"
#include "transports/gloo/mesh.h"

namespace roda::gloo {

inline constexpr std::size_t kIdentityBytes = 128;

inline std::string seconds(std::chrono::milliseconds time) {
  std::string text = std::to_string(time.count() / 1000);
  if (time.count() % 1000 != 0) text += "." + std::to_string(time.count() % 1000 / 100);
  return text + " s";
}

inline bool is_timeout(const std::string& text) { return text.find("imed out") != std::string::npos; }

inline roda_group_desc with_limit(roda_group_desc desc, std::chrono::milliseconds limit) {
  desc.timeout_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(limit).count());
  return desc;
}

// The entries are those of roda/sdk/transport.hpp. abort() from any thread, the others from the context's caller.
class Group {
 public:
  using Request = roda::gloo::Request;

  Group(Context& context, const roda_group_desc& desc)
      : context_(&context),
        timeout_(context.timeout(desc.timeout_ns)),
        state_("gloo", with_limit(desc, timeout_)),
        links_(static_cast<std::size_t>(desc.size)) {
    context.add(this);
    if (state_.size() == 1) {
      state_.set_formed();
      return;
    }
    std::string identity = loopback_identity();
    identity.resize(kIdentityBytes);
    gather_ = state_.gather("gloo.host", identity.data(), identity.size());
    worker_ = start_thread("roda-gloo-work", [this] { work(); });
  }
  ~Group() {
    context_->remove(this);
    if (is_watched_) context_->wakeups().exclude(*sockets_);
    state_.abort({RODA_ERR_ABORTED, state_.text("was destroyed")});
    bool must_tear_down = false;
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
      const bool has_links =
          std::any_of(links_.begin(), links_.end(), [](const auto& link) { return link != nullptr; });
      must_tear_down = mesh_ != nullptr && (has_links || !worker_idle_);
    }
    jobs_changed_.notify_all();
    if (abort_thread_.joinable()) abort_thread_.join();
    if (must_tear_down) tear_down();
    links_.clear();
    if (worker_.joinable()) worker_.join();
  }

  bool test() {
    const auto late = [this] {
      const bool connects = step_ == Step::kListen || step_ == Step::kConnect;
      return connects ? state_.late({}, "waiting for connections") : state_.late(gather_.missing());
    };
    return state_.form([this] { return form_on(); }, late, [this](const sdk::Failure& why) { abort(why); });
  }
  // Sets the cause, unless there is one, and tears the connections down in the background.
  void abort(const sdk::Failure& cause) {
    state_.abort(cause);
    const MutexLock lock(mutex_);
    if (mesh_ != nullptr && !abort_thread_.joinable() && !stopping_) {
      abort_thread_ = start_thread("roda-gloo-abort", [this] { tear_down(); });
    }
    context_->notify();
  }

  int32_t send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory*,
               Request** request) {
    return start_message(peer, tag, const_cast<void*>(data), bytes, request, &Link::send);
  }
  int32_t receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory*, Request** request) {
    return start_message(peer, tag, data, bytes, request, &Link::receive);
  }
  int32_t start(const roda_collective_args& args, Request** request) {
    state_.throw_if_broken();
    if (!Context::collective_supported(args.collective, args.dtype, args.op, args.memory_kind)) {
      throw sdk::no_such_collective("gloo", args);
    }
    if (sdk::is_trivial(args, state_.size())) return RODA_OK;
    Request& started = requests_.take(nullptr, 0);
    started.keep(args, state_.size());
    run_on_worker([this, &started] { run_collective(started); });
    *request = &started;
    return RODA_OK;
  }
  int32_t test(Request* request) {
    if (!request->is_message()) take_ended();
    if (!request->is_pending()) {
      if (request->is_message()) --messages_pending_;
      return requests_.collect(*request);
    }
    if (!request->is_message() || state_.is_broken() || Clock::now() - request->started < timeout_)
      return RODA_IN_PROGRESS;
    const sdk::Failure late = explain_message(request->peer, RODA_ERR_TIMEOUT,
                                              "nothing moved within the limit; if the rank is merely slow, raise "
                                              "HOROVOD_GLOO_TIMEOUT_SECONDS");
    if (!link(request->peer).withdraw(request)) {
      // Its data are moving: it ends when the connection is torn down.
      abort(late);
      return RODA_IN_PROGRESS;
    }
    --messages_pending_;
    requests_.give_back(*request);
    throw late;
  }
  bool is_quiet(const void* base, std::size_t bytes) {
    take_ended();
    bool is = true;
    requests_.for_each_pending(
        [&](const Request& request) { is = is && !request.touches(base, bytes, state_.rank(), state_.size()); });
    return is;
  }

  // Moves messages on; returns how many things ended or came. Sets `*data_came` if anything was there to be read.
  int pump(bool* data_came) {
    if (messages_pending_ == 0) return 0;
    if (state_.is_broken()) return is_torn_down_ ? end_messages() : 0;
    int moved = 0;
    bool lost_one = false;
    for (const std::unique_ptr<Link>& link : links_) {
      if (link == nullptr || link->is_broken()) continue;
      moved += link->pump(data_came);
      lost_one |= link->is_broken();
    }
    if (lost_one) watch_links();
    return moved;
  }
  // Sees to it that data for pending messages wake the sleeper, and only those. True when there are pending ones.
  // `*rest` becomes earlier when data need nobody before then.
  bool prepare_sleep(Wakeups& wakeups, std::optional<Clock::time_point>* rest) {
    const bool awaits_messages = messages_pending_ > 0;
    bool rests = false;
    for (const std::unique_ptr<Link>& link : links_) {
      const auto until = link == nullptr || link->is_broken() ? std::nullopt : link->rest();
      if (!until.has_value()) continue;
      rests = true;
      *rest = std::min(rest->value_or(*until), *until);
    }
    const bool watches = awaits_messages && !rests;
    if (watches != is_watched_) {
      watches ? wakeups.include(*sockets_) : wakeups.exclude(*sockets_);
      is_watched_ = watches;
    }
    return awaits_messages;
  }

 private:
  // Forming, in order. "Worker" steps run on the worker thread, between exchanges that test() drives.
  enum class Step { kIdentify, kListen, kAddresses, kConnect };

  void listen() {
    auto mesh =
        std::make_shared<Mesh>(context_->device(reach_, state_.address()), state_.rank(), state_.size(), timeout_);
    card_ = mesh->card();
    const MutexLock lock(mutex_);
    mesh_ = std::move(mesh);
  }
  void connect_all() {
    try {
      mesh_->connect([this](int peer) { return gather_.value(peer); });
    } catch (const NoConnection& failure) {
      const bool has_peer = failure.peer >= 0;
      throw sdk::Failure(
          RODA_ERR_PEER,
          "gloo: no connection to " + (has_peer ? state_.describe(failure.peer) : "others of " + state_.label()) +
              " (on hosts with several networks, HOROVOD_GLOO_IFACE names the interface): " + failure.what(),
          has_peer ? state_.world_rank(failure.peer) : -1);
    }
  }
  bool form_on() {
    switch (step_) {
      case Step::kIdentify:
        if (!gather_.test()) return false;
        reach_ = Reach::kHost;
        for (int peer = 0; peer < state_.size(); ++peer) {
          if (std::memcmp(gather_.value(peer), gather_.value(state_.rank()), kIdentityBytes) != 0)
            reach_ = Reach::kNetwork;
        }
        step_ = Step::kListen;
        run_on_worker([this] { listen(); });
        return false;
      case Step::kListen:
        if (!take_worker_result()) return false;
        gather_ = state_.gather("gloo.address", card_.data(), card_.size());
        step_ = Step::kAddresses;
        return false;
      case Step::kAddresses:
        if (!gather_.test()) return false;
        step_ = Step::kConnect;
        run_on_worker([this] { connect_all(); });
        return false;
      case Step::kConnect:
        return take_worker_result();
    }
    return false;
  }
  bool take_worker_result() {
    {
      const MutexLock lock(mutex_);
      if (!worker_idle_) return false;
    }
    state_.throw_if_broken();
    return true;
  }

  void run_on_worker(std::function<void()> job) {
    {
      const MutexLock lock(mutex_);
      worker_idle_ = false;
      jobs_.push_back(std::move(job));
    }
    jobs_changed_.notify_one();
  }
  void work() {
    MutexLock lock(mutex_);
    while (true) {
      while (!stopping_ && jobs_.empty()) jobs_changed_.wait(lock.held());
      if (jobs_.empty()) return;
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      try {
        job();
      } catch (const sdk::Failure& failure) {
        abort(failure);
      } catch (const std::exception& failure) {
        abort({RODA_ERR_UNKNOWN, state_.text(failure.what())});
      }
      lock.lock();
      worker_idle_ = jobs_.empty();
      context_->notify();
    }
  }
  void run_collective(Request& request) {
    sdk::Failure end{RODA_OK, {}};
    try {
      state_.throw_if_broken();
      run(mesh_->context(), request.args, context_->host(), &waits_);
      state_.throw_if_broken();
    } catch (const sdk::Failure& failure) {
      abort(failure);
      end = failure;
    } catch (const std::exception& failure) {
      abort(explain_collective(request.args.collective, failure.what()));
      end = state_.cause();
    }
    const MutexLock lock(mutex_);
    ended_.emplace_back(&request, std::move(end));
  }
  // Of collectives that the worker is through with.
  void take_ended() {
    const MutexLock lock(mutex_);
    for (const auto& [request, end] : ended_) {
      end.code() == RODA_OK ? requests_.finish(*request) : requests_.finish(*request, end);
    }
    ended_.clear();
  }
  // Ends everything that waits on a connection. Takes a few ms per peer.
  void tear_down() {
    mesh_->abort();
    bool is_over = waits_.give_up();
    is_torn_down_ = true;
    context_->notify();
    for (; !is_over; is_over = waits_.give_up()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  sdk::Failure explain_collective(int collective, const std::string& text) {
    const std::string name = std::string(roda_collective_name(collective)) + " over " + state_.label();
    if (is_timeout(text)) {
      return {RODA_ERR_TIMEOUT, "gloo: " + name + " made no progress for " + seconds(timeout_) + "; " +
                                    sdk::GroupState::kRaise + ": " + text};
    }
    const int peer = mesh_->find_lost_peer(text);
    const int rank = peer < 0 ? -1 : state_.world_rank(peer);
    const std::string which = peer < 0 ? "a connection" : "the connection to rank " + std::to_string(rank);
    return {RODA_ERR_PEER, "gloo: " + name + " lost " + which + ": " + text, rank};
  }
  sdk::Failure explain_message(int peer, int32_t code, const std::string& text) {
    if (state_.is_broken()) return state_.cause();
    const int rank = state_.world_rank(peer);
    return {code, "gloo: messages with rank " + std::to_string(rank) + " in " + state_.label() + ": " + text, rank};
  }

  int32_t start_message(int peer, std::uint64_t tag, void* data, std::size_t bytes, Request** request,
                        std::int32_t (Link::*begin)(Request&)) {
    state_.throw_if_broken();
    Link& with = link(peer);
    Request& message = requests_.take(data, bytes, tag);
    message.peer = peer;
    std::int32_t code = RODA_OK;
    try {
      code = (with.*begin)(message);
    } catch (...) {
      requests_.give_back(message);
      throw;
    }
    if (code != RODA_OK) {
      requests_.give_back(message);
      return code;
    }
    if (message.is_pending()) ++messages_pending_;
    return requests_.hand_out(message, request);
  }
  Link& link(int peer) {
    if (!state_.is_formed() || !state_.is_peer(peer)) state_.refuse(peer);
    std::unique_ptr<Link>& link = links_[static_cast<std::size_t>(peer)];
    if (link == nullptr) {
      const auto explain = [this, peer](int32_t code, const std::string& text) {
        return explain_message(peer, code, text);
      };
      link =
          std::make_unique<Link>(*mesh_, peer, requests_, explain, [this](const sdk::Failure& cause) { abort(cause); });
      sockets_->add(mesh_->socket(peer));
    }
    return *link;
  }
  // Once the connections are torn down; returns how many.
  int end_messages() {
    int ended = 0;
    const sdk::Failure first = state_.cause();
    for (const std::unique_ptr<Link>& link : links_) {
      if (link != nullptr) ended += link->end_all(first);
    }
    return ended;
  }
  // Sleeping on connections that are still there.
  void watch_links() {
    // A new set: a closed socket that a child still holds would stay in the old one, and be readable for ever.
    auto sockets = std::make_unique<SocketSet>();
    for (int peer = 0; peer < state_.size(); ++peer) {
      const auto& link = links_[static_cast<std::size_t>(peer)];
      if (link != nullptr && !link->is_broken()) sockets->add(mesh_->socket(peer));
    }
    if (is_watched_) context_->wakeups().exclude(*sockets_);
    is_watched_ = false;
    sockets_ = std::move(sockets);
  }

  Context* const context_;
  const std::chrono::milliseconds timeout_;
  sdk::GroupState state_;

  Step step_ = Step::kIdentify;
  sdk::Allgather gather_;
  Reach reach_ = Reach::kNetwork;
  std::vector<char> card_;  // to be published next, made by the worker

  std::shared_ptr<Mesh> mesh_;  // set by the worker under mutex_

  Mutex mutex_;
  std::condition_variable jobs_changed_;
  std::deque<std::function<void()>> jobs_ RODA_GUARDED_BY(mutex_);
  std::vector<std::pair<Request*, sdk::Failure>> ended_ RODA_GUARDED_BY(mutex_);
  bool stopping_ RODA_GUARDED_BY(mutex_) = false;
  bool worker_idle_ RODA_GUARDED_BY(mutex_) = true;
  std::thread worker_;
  std::thread abort_thread_;

  Waits waits_;  // of collectives
  std::atomic<bool> is_torn_down_{false};

  // The caller's thread only.
  std::vector<std::unique_ptr<Link>> links_;
  std::unique_ptr<SocketSet> sockets_ = std::make_unique<SocketSet>();
  int messages_pending_ = 0;
  bool is_watched_ = false;
  sdk::RequestTable<Request> requests_;
};

}  // namespace roda::gloo
