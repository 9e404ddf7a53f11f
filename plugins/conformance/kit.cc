#include "plugins/conformance/kit.h"

#include <poll.h>
#include <time.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <utility>

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
    for (const auto* part : {&kGroupCases, &kMessageCases, &kOneSidedCases, &kMemoryCases, &kNativeCases, &kSleepCases,
                             &kAbortCases, &kDeathCases, &kLeakCases}) {
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

Buffer::Buffer(const Placement& placement, std::vector<char> data) : placement_(placement), host_(std::move(data)) {
  if (placement_.device == nullptr) return;
  roda_error error = make_error();
  memory_.struct_size = sizeof memory_;
  const int32_t allocated = placement_.device->alloc(placement_.number, host_.size(), &memory_, &error);
  CHECK(allocated == RODA_OK, "%zu bytes on device %d: %s", host_.size(), placement_.number, error.message);
  if (host_.empty()) return;
  const int32_t copied = placement_.device->copy(memory_.address, host_.data(), host_.size(), nullptr, &error);
  CHECK(copied == RODA_OK, "a copy to device %d: %s", placement_.number, error.message);
}

Buffer::Buffer(Buffer&& other) noexcept
    : placement_(other.placement_), host_(std::move(other.host_)), memory_(std::exchange(other.memory_, {})) {}

Buffer::~Buffer() {
  if (memory_.owner != nullptr) placement_.device->free(&memory_);
}

const std::vector<char>& Buffer::read() {
  if (placement_.device == nullptr || host_.empty()) return host_;
  roda_error error = make_error();
  const int32_t copied = placement_.device->copy(host_.data(), memory_.address, host_.size(), nullptr, &error);
  CHECK(copied == RODA_OK, "a copy from device %d: %s", placement_.number, error.message);
  return host_;
}

Env::Env(const roda_transport& table, const roda_host* host, World* world, int rank, const roda_device* device)
    : table_(table),
      host_(host),
      world_(world),
      rank_(rank),
      placement_{device, rank},
      deadline_ns_(now_ns() + case_seconds() * std::int64_t{1'000'000'000}) {
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
  CHECK(now_ns() < deadline_ns_, "%s: not over after %d s", what, case_seconds());
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
  // As an engine's own thread does: what another rank's messages need to leave may be this one's answer.
  const auto progress = [this] {
    if (context_ != nullptr) table_.progress(context_);
  };
  if (world_->barrier(rank_, count == 0 ? size() : count, deadline_ns_, progress)) return;
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
    if (context_ == nullptr || table_.progress(context_) == 0) pause_briefly();
  }
}

}  // namespace roda::conformance
