#include "plugins/conformance/kit.h"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace roda::conformance {
namespace {

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

const std::vector<Case>& all_cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> list;
    for (const auto* part :
         {&kGroupCases, &kMessageCases, &kOneSidedCases, &kNativeCases, &kSleepCases, &kAbortCases, &kDeathCases}) {
      list.insert(list.end(), part->begin(), part->end());
    }
    return list;
  }();
  return all;
}

roda_collective_args arguments(Env& env, int collective, int dtype, int op) {
  static thread_local std::uint64_t tag = 0;
  roda_collective_args args{};
  args.struct_size = sizeof args;
  args.collective = collective;
  args.dtype = dtype;
  args.op = op;
  args.memory_kind = env.placement().memory_kind();
  args.tag = ++tag;
  return args;
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

void Env::close_context() {
  if (context_ != nullptr) table_.context_destroy(context_);
  context_ = nullptr;
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
    if (context_ == nullptr || table_.progress(context_) == 0) pause_briefly();
  }
}

// Groups as the cases use them.
Group::Group(Env& env, Spec spec, const std::string& name) : env_(env), name_(name) {
  if (spec.members.empty()) {
    for (int i = 0; i < env.size(); ++i) spec.members.push_back(i);
  }
  members_.assign(spec.members.begin(), spec.members.end());
  rank_ = static_cast<int>(std::find(members_.begin(), members_.end(), env.rank()) - members_.begin());
  key_ = name + "#" + std::to_string(spec.generation);
  desc_.struct_size = sizeof desc_;
  desc_.rank = rank_;
  desc_.size = size();
  desc_.world_ranks = members_.data();
  desc_.name = name_.c_str();
  desc_.generation = spec.generation;
  desc_.timeout_ns = spec.timeout_ns;
  desc_.has_device = env.placement().device != nullptr ? 1 : 0;
  desc_.device = env.placement().number;
  desc_.exchange = {sizeof desc_.exchange, 0, this, &exchange_put, &exchange_get};
  must("group_create", [&](roda_error* e) { return env.table().group_create(env.context(), &desc_, &group_, e); });
}

Group::~Group() noexcept(false) { destroy(); }

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
  Result result{request == nullptr ? RODA_OK : RODA_IN_PROGRESS, make_error()};
  // Not asked again once it has ended: that released it.
  const auto ended = [&] {
    if (result.code != RODA_IN_PROGRESS) return true;
    result.code = env_.table().request_test(group_, request, &result.error);
    return result.code != RODA_IN_PROGRESS;
  };
  env_.drive(ended, "the end of a request");
  return result;
}

}  // namespace roda::conformance
