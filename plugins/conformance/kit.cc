#include "plugins/conformance/kit.h"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <exception>

namespace roda::conformance {
namespace {

// Long enough for any machine that is merely slow; a case that needs it has failed.
constexpr std::int64_t kCaseSeconds = 40;
constexpr int kSleepSliceMs = 100;

void pause_briefly() {
  const timespec pause{0, 100'000};
  ::nanosleep(&pause, nullptr);
}

}  // namespace

void fail_at(const char* file, int line, const char* format, ...) {
  char text[1200];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const char* slash = std::strrchr(file, '/');
  throw CaseFailure(std::string(slash != nullptr ? slash + 1 : file) + ":" + std::to_string(line) + ": " + text);
}

roda_error make_error() {
  roda_error error{};
  error.struct_size = sizeof error;
  error.rank = -1;
  return error;
}

std::vector<char> pattern(std::size_t bytes, int from, int to, std::uint64_t tag) {
  std::vector<char> data(bytes);
  std::uint64_t state = tag * 1000003 + static_cast<std::uint64_t>(from * 64 + to) + 1;
  for (char& byte : data) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<char>(state >> 56);
  }
  return data;
}

Env::Env(const roda_transport& table, const roda_host* host, World* world, int rank)
    : table_(table), host_(host), world_(world), rank_(rank), deadline_ns_(now_ns() + kCaseSeconds * 1'000'000'000) {
  open_context();
}

Env::~Env() { close_context(); }

void Env::open_context() {
  roda_error error = make_error();
  const int32_t code = table_.context_create(host_, &context_, &error);
  CHECK(code == RODA_OK, "context_create: %d %s", code, error.message);
  capabilities_ = table_.context_capabilities(context_);
  CHECK((capabilities_ & ~table_.capabilities) == 0, "the context has capabilities that the table does not announce");
}

void Env::close_context() {
  if (context_ != nullptr) table_.context_destroy(context_);
  context_ = nullptr;
}

void Env::check_deadline(const char* what) const {
  if (world_->someone_failed())
    throw CaseFailure(std::string("stopped: another rank failed while this one waited for ") + what);
  CHECK(now_ns() < deadline_ns_, "%s: not over after %d s", what, static_cast<int>(kCaseSeconds));
}

bool Env::is_settled() {
  if (context_ == nullptr || table_.settle == nullptr) return true;
  const int32_t code = table_.settle(context_);
  CHECK(code == RODA_OK || code == RODA_AGAIN, "settle returned %d", code);
  return code == RODA_OK;
}

void Env::settle() {
  drive([this] { return is_settled(); }, "what ended to leave this process");
}

void Env::barrier(int count) {
  settle();
  if (world_->barrier(rank_, count == 0 ? size() : count, deadline_ns_)) return;
  check_deadline("the other ranks");
}

void Env::drive(const std::function<bool()>& done, const char* what) {
  while (!done()) {
    check_deadline(what);
    if (table_.progress(context_) > 0) continue;
    if (table_.progress_mode == RODA_PROGRESS_POLL) {
      pause_briefly();
    } else {
      sleep(done, what);
    }
  }
}

void Env::sleep(const std::function<bool()>& done, const char* what) {
  const int32_t code = table_.arm(context_);
  CHECK(code == RODA_OK || code == RODA_AGAIN, "arm returned %d", code);
  const auto disarm = [this] {
    if (table_.disarm != nullptr) table_.disarm(context_);
  };
  if (code == RODA_AGAIN || done()) return disarm();
  pollfd waiting{table_.event_fd(context_), POLLIN, 0};
  CHECK(waiting.fd >= 0, "event_fd is %d, though the progress mode is not poll", waiting.fd);
  while (::poll(&waiting, 1, kSleepSliceMs) <= 0) {
    // Not asked in between: only the descriptor may end the sleep, or a lost wake-up would go unseen.
    if (!world_->someone_failed() && now_ns() < deadline_ns_) continue;
    CHECK(world_->someone_failed() || !done(), "%s: it had happened, but the descriptor did not wake the sleeper",
          what);
    check_deadline(what);
  }
  disarm();
}

void Env::poll_until(const std::function<bool()>& done, const char* what) {
  while (!done()) {
    check_deadline(what);
    if (table_.progress(context_) == 0) pause_briefly();
  }
}

void Env::wait_until(const std::function<bool()>& done, const char* what) {
  settle();
  while (!done()) {
    check_deadline(what);
    pause_briefly();
  }
}

Group::Group(Env& env, const std::string& name, Options options) : env_(env), name_(name) {
  if (options.members.empty()) {
    for (int i = 0; i < env.size(); ++i) options.members.push_back(i);
  }
  members_.assign(options.members.begin(), options.members.end());
  rank_ = static_cast<int>(std::find(members_.begin(), members_.end(), env.rank()) - members_.begin());
  key_ = name + "#" + std::to_string(options.generation);
  desc_.struct_size = sizeof desc_;
  desc_.rank = rank_;
  desc_.size = size();
  desc_.world_ranks = members_.data();
  desc_.name = name_.c_str();
  desc_.generation = options.generation;
  desc_.timeout_ns = options.timeout_ns;
  desc_.exchange = {sizeof desc_.exchange, 0, this, &exchange_put, &exchange_get};
  roda_error error = make_error();
  const int32_t code = env_.table().group_create(env_.context(), &desc_, &group_, &error);
  CHECK(code == RODA_OK, "group_create: %d %s", code, error.message);
  if (options.form) form_or_destroy();
}

// A constructor that throws has no destructor.
void Group::form_or_destroy() {
  try {
    const Result result = form();
    CHECK(result.code == RODA_OK, "forming group %s: %d %s", name_.c_str(), result.code, result.error.message);
  } catch (...) {
    env_.table().group_destroy(group_);
    throw;
  }
}

Group::~Group() noexcept(false) { destroy(); }

void Group::destroy() {
  if (group_ == nullptr) return;
  if (std::uncaught_exceptions() == 0) env_.settle();
  env_.table().group_destroy(group_);
  group_ = nullptr;
}

int32_t Group::exchange_put(void* self, const char* key, const void* value, size_t bytes, roda_error* error) {
  auto* group = static_cast<Group*>(self);
  const bool is_legal = bytes <= 65536 && group->env_.world().put(group->key_, group->rank_, key, value, bytes);
  if (is_legal) return RODA_OK;
  std::snprintf(error->message, sizeof error->message, "the kit's exchange takes no %zu bytes under '%s'", bytes, key);
  return error->code = RODA_ERR_INVALID;
}

int32_t Group::exchange_get(void* self, int32_t rank, const char* key, void* value, size_t* bytes, roda_error* error) {
  auto* group = static_cast<Group*>(self);
  const int32_t code = group->env_.world().get(group->key_, rank, key, value, bytes);
  if (code < 0) std::snprintf(error->message, sizeof error->message, "'%s' is longer than the room for it", key);
  return code;
}

Result Group::form() {
  Result result{RODA_IN_PROGRESS, make_error()};
  const auto tested = [&] { return (result.code = test(&result.error)) != RODA_IN_PROGRESS; };
  env_.poll_until(tested, "forming a group");
  return result;
}

template <typename Start>
roda_request* Group::retry(const char* what, Start&& start) {
  roda_request* request = nullptr;
  roda_error error = make_error();
  int32_t code = RODA_AGAIN;
  env_.poll_until([&] { return (code = start(&request, &error)) != RODA_AGAIN; }, what);
  CHECK(code == RODA_OK, "%s: %d %s", what, code, error.message);
  return request;
}

roda_request* Group::send(int peer, std::uint64_t tag, const void* data, std::size_t bytes) {
  return retry("send", [&](roda_request** request, roda_error* error) {
    return env_.table().send(group_, peer, tag, data, bytes, nullptr, request, error);
  });
}

roda_request* Group::receive(int peer, std::uint64_t tag, void* data, std::size_t bytes) {
  return retry("recv", [&](roda_request** request, roda_error* error) {
    return env_.table().recv(group_, peer, tag, data, bytes, nullptr, request, error);
  });
}

roda_request* Group::get(int peer, std::uint32_t slot, std::size_t offset, void* to, std::size_t bytes) {
  return retry("get", [&](roda_request** request, roda_error* error) {
    return env_.table().get(group_, peer, slot, offset, to, bytes, request, error);
  });
}

roda_request* Group::put(int peer, std::uint32_t slot, std::size_t offset, const void* from, std::size_t bytes) {
  return retry("put", [&](roda_request** request, roda_error* error) {
    return env_.table().put(group_, peer, slot, offset, from, bytes, request, error);
  });
}

roda_request* Group::start(const roda_collective_args& args) {
  return retry(roda_collective_name(args.collective), [&](roda_request** request, roda_error* error) {
    return env_.table().collective_start(group_, &args, request, error);
  });
}

void Group::signal(int peer, std::uint32_t index, std::uint64_t value) {
  retry("signal",
        [&](roda_request**, roda_error* error) { return env_.table().signal(group_, peer, index, value, error); });
}

void Group::wait_signal(int peer, std::uint32_t index, std::uint64_t value) {
  env_.drive([&] { return env_.table().signal_value(group_, peer, index) >= value; }, "a signal");
}

void Group::wait(std::vector<roda_request*> requests) {
  roda_error error = make_error();
  const auto all_done = [&] {
    std::erase_if(requests, [&](roda_request* request) {
      if (request == nullptr) return true;
      const int32_t code = env_.table().request_test(group_, request, &error);
      CHECK(code == RODA_OK || code == RODA_IN_PROGRESS, "a request ended with %d %s", code, error.message);
      return code == RODA_OK;
    });
    return requests.empty();
  };
  env_.drive(all_done, "requests");
}

Result Group::finish(roda_request* request) {
  Result result{RODA_OK, make_error()};
  if (request == nullptr) return result;
  const auto ended = [&] {
    return (result.code = env_.table().request_test(group_, request, &result.error)) != RODA_IN_PROGRESS;
  };
  env_.drive(ended, "the end of a request");
  return result;
}

void Group::abort(int32_t code, int world_rank, const char* text) {
  roda_error cause = make_error();
  cause.code = code;
  cause.rank = world_rank;
  std::snprintf(cause.message, sizeof cause.message, "%s", text);
  env_.table().group_abort(group_, &cause);
}

}  // namespace roda::conformance
