#include "transports/gloo/group.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "plugins/base/local_address.h"
#include "transports/gloo/thread.h"

namespace roda::gloo {
namespace {

constexpr std::size_t kIdentityBytes = 128;

std::string seconds(std::chrono::milliseconds time) {
  std::string text = std::to_string(time.count() / 1000);
  if (time.count() % 1000 != 0) text += "." + std::to_string(time.count() % 1000 / 100);
  return text + " s";
}

bool is_timeout(const std::string& text) { return text.find("imed out") != std::string::npos; }

roda_group_desc with_limit(roda_group_desc desc, std::chrono::milliseconds limit) {
  desc.timeout_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(limit).count());
  return desc;
}

}  // namespace

Group::Group(Context& context, const roda_group_desc& desc)
    : context_(&context),
      timeout_(context.timeout(desc.timeout_ns)),
      state_("gloo", with_limit(desc, timeout_)),
      exchange_(desc.exchange),
      links_(static_cast<std::size_t>(desc.size)) {
  context.add(this);
  if (state_.size() == 1) {
    state_.set_formed();
    return;
  }
  std::string identity = loopback_identity();
  identity.resize(kIdentityBytes);
  gather_ = sdk::Allgather(exchange_, state_.rank(), state_.size(), "gloo.host");
  gather_.start(identity.data(), identity.size());
  worker_ = start_thread("roda-gloo-work", [this] { work(); });
}

Group::~Group() {
  context_->remove(this);
  if (is_watched_) context_->wakeups().exclude(*sockets_);
  state_.abort({RODA_ERR_ABORTED, state_.text("was destroyed")});
  bool must_poison = false;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    const bool has_links = std::any_of(links_.begin(), links_.end(), [](const auto& link) { return link != nullptr; });
    must_poison = mesh_ != nullptr && (has_links || !worker_idle_);
  }
  jobs_changed_.notify_all();
  if (poisoner_.joinable()) poisoner_.join();
  if (must_poison) tear_down();
  links_.clear();
  if (worker_.joinable()) worker_.join();
}

bool Group::test() {
  state_.throw_if_broken();
  if (state_.is_formed()) return true;
  check_deadline();
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
      gather_ = sdk::Allgather(exchange_, state_.rank(), state_.size(), "gloo.address");
      gather_.start(card_.data(), card_.size());
      step_ = Step::kAddresses;
      return false;
    case Step::kAddresses:
      if (!gather_.test()) return false;
      step_ = Step::kConnect;
      run_on_worker([this] { connect_all(); });
      return false;
    case Step::kConnect:
      if (take_worker_result()) state_.set_formed();
      break;
  }
  return state_.is_formed();
}

bool Group::take_worker_result() {
  {
    const MutexLock lock(mutex_);
    if (!worker_idle_) return false;
  }
  state_.throw_if_broken();
  return true;
}

void Group::check_deadline() {
  if (!state_.is_late()) return;
  const bool connects = step_ == Step::kListen || step_ == Step::kConnect;
  break_with(connects ? state_.late({}, "waiting for connections") : state_.late(gather_.missing()));
  state_.throw_if_broken();
}

void Group::listen() {
  auto mesh = std::make_shared<Mesh>(context_->device(reach_), state_.rank(), state_.size(), timeout_);
  card_ = mesh->card();
  const MutexLock lock(mutex_);
  mesh_ = std::move(mesh);
}

void Group::connect_all() {
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

void Group::run_on_worker(std::function<void()> job) {
  {
    const MutexLock lock(mutex_);
    worker_idle_ = false;
    jobs_.push_back(std::move(job));
  }
  jobs_changed_.notify_one();
}

void Group::work() {
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
      break_with(failure);
    } catch (const std::exception& failure) {
      break_with({RODA_ERR_UNKNOWN, state_.text(failure.what())});
    }
    lock.lock();
    worker_idle_ = jobs_.empty();
    context_->notify();
  }
}

void Group::break_with(const sdk::Failure& failure) {
  state_.abort(failure);
  const MutexLock lock(mutex_);
  if (mesh_ != nullptr && !poisoner_.joinable() && !stopping_) {
    poisoner_ = start_thread("roda-gloo-abort", [this] { tear_down(); });
  }
  context_->notify();
}

void Group::tear_down() {
  mesh_->poison();
  bool is_over = waits_.give_up();
  is_torn_down_ = true;
  context_->notify();
  for (; !is_over; is_over = waits_.give_up()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Group::abort(const sdk::Failure& cause) { break_with(cause); }

sdk::Failure Group::explain_collective(const Collective& what, const std::string& text) {
  const std::string name = std::string(roda_collective_name(what.collective)) + " over " + state_.label();
  if (is_timeout(text)) {
    return {RODA_ERR_TIMEOUT, "gloo: " + name + " made no progress for " + seconds(timeout_) + "; " +
                                  sdk::GroupState::kRaise + ": " + text};
  }
  const int peer = mesh_->blame(text);
  if (peer < 0) return {RODA_ERR_PEER, "gloo: " + name + " lost a connection: " + text};
  return {RODA_ERR_PEER,
          "gloo: " + name + " lost the connection to rank " + std::to_string(state_.world_rank(peer)) + ": " + text,
          state_.world_rank(peer)};
}

void Group::run_collective(Request* request) {
  try {
    state_.throw_if_broken();
    run(mesh_->context(), request->collective(), context_->host(), &waits_);
    state_.throw_if_broken();
    request->end();
  } catch (const sdk::Failure& failure) {
    break_with(failure);
    request->end(failure);
  } catch (const std::exception& failure) {
    break_with(explain_collective(request->collective(), failure.what()));
    request->end(state_.cause());
  }
}

int32_t Group::start(const roda_collective_args& args, Request** request) {
  state_.throw_if_broken();
  if (!Context::collective_supported(args.collective, args.dtype, args.op, args.memory_kind)) {
    throw sdk::Failure(RODA_ERR_UNSUPPORTED, std::string("gloo: no ") + roda_collective_name(args.collective) + " of " +
                                                 roda_dtype_name(args.dtype));
  }
  Request* started = pool_.take();
  started->start_collective().assign(args, state_.size());
  if (is_trivial(started->collective(), state_.size())) {
    started->end();
    pool_.give_back(started);
    return RODA_OK;
  }
  live_.push_back(started);
  run_on_worker([this, started] { run_collective(started); });
  *request = started;
  return RODA_OK;
}

}  // namespace roda::gloo
