// Ranks as threads under GoogleTest, for transports that are linked into the test: an exchange in memory, and every
// call of the ABI with its error kept.
#pragma once

#include <poll.h>
#include <roda/abi/transport.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace roda::transport_test {

using Knobs = std::map<std::string, std::string>;

inline bool contains(const char* text, const std::string& part) {
  return std::string(text).find(part) != std::string::npos;
}

// Gives the settings, which outlive it.
inline roda_host host_of(Knobs* knobs) {
  roda_host host{};
  host.struct_size = sizeof host;
  host.self = knobs;
  host.knob = [](void* self, const char* name) -> const char* {
    const Knobs& all = *static_cast<Knobs*>(self);
    const auto found = all.find(name);
    return found == all.end() ? nullptr : found->second.c_str();
  };
  return host;
}

// The exchange of one group. Thread-safe.
class Board {
 public:
  struct Seat {
    Board* board;
    int rank;
  };
  static int32_t put(void* self, const char* key, const void* value, size_t bytes, roda_error*) {
    const Seat& seat = *static_cast<Seat*>(self);
    std::lock_guard lock(seat.board->mutex_);
    seat.board->values_[{seat.rank, key}].assign(static_cast<const char*>(value), bytes);
    return RODA_OK;
  }
  static int32_t get(void* self, int32_t rank, const char* key, void* value, size_t* bytes, roda_error*) {
    const Seat& seat = *static_cast<Seat*>(self);
    std::lock_guard lock(seat.board->mutex_);
    const auto found = seat.board->values_.find({rank, key});
    if (found == seat.board->values_.end()) return RODA_IN_PROGRESS;
    if (found->second.size() > *bytes) return RODA_ERR_INVALID;
    *bytes = found->second.copy(static_cast<char*>(value), *bytes);
    return RODA_OK;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, std::string>, std::string> values_;
};

// One rank: a context with knobs of its own, and a group over all ranks, which forms over the board or another
// exchange. Used by one thread, but for abort().
class Member {
 public:
  Member(const roda_transport* table, Board& board, int rank, int size, Knobs knobs = {}, std::uint64_t timeout_ns = 0,
         const roda_exchange* exchange = nullptr)
      : table_(table), knobs_(std::move(knobs)), seat_{&board, rank} {
    host_ = {sizeof host_, RODA_ABI_VERSION, this, &log, &knob, &reduce, &copy};
    for (int i = 0; i < size; ++i) world_ranks_.push_back(100 + i);  // not the group's numbers: errors must translate
    desc_ = {sizeof desc_,
             rank,
             size,
             0,
             world_ranks_.data(),
             "test",
             1,
             timeout_ns,
             {sizeof(roda_exchange), 0, &seat_, &Board::put, &Board::get}};
    if (exchange != nullptr) desc_.exchange = *exchange;
    error_.struct_size = sizeof error_;
    code_ = table_->context_create(&host_, &context_, &error_);
    if (code_ == RODA_OK) code_ = table_->group_create(context_, &desc_, &group_, &error_);
  }
  ~Member() {
    leave();
    if (context_ != nullptr) table_->context_destroy(context_);
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // Of the constructor.
  int code() const { return code_; }
  const char* text() const { return error_.message; }
  const std::string& warnings() const { return warnings_; }  // that the transport logged
  int error_rank() const { return error_.rank; }
  roda_group* group() const { return group_; }
  roda_context* context() const { return context_; }

  int test() { return code_ = table_->group_test(group_, &error_); }
  int test(roda_request* request) {
    return request == nullptr ? static_cast<int>(RODA_OK) : table_->request_test(group_, request, &error_);
  }
  int form() {
    while (test() == RODA_IN_PROGRESS) {
      table_->progress(context_);
      std::this_thread::yield();
    }
    return code_;
  }
  void progress() { table_->progress(context_); }
  // Until what has ended needs no progress any more: before this rank stops making any.
  void settle() {
    while (table_->settle != nullptr && table_->settle(context_) == RODA_AGAIN) {
      table_->progress(context_);
      std::this_thread::yield();
    }
  }
  void leave() {
    if (group_ == nullptr) return;
    settle();
    table_->group_destroy(group_);
    group_ = nullptr;
  }
  void abort(int code, int rank, const char* text) {
    roda_error cause{sizeof cause, code, rank, {}};
    std::snprintf(cause.message, sizeof cause.message, "%s", text);
    table_->group_abort(group_, &cause);
  }

  int send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, roda_request** request) {
    return table_->send(group_, peer, tag, data, bytes, nullptr, request, &error_);
  }
  int receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, roda_request** request) {
    return table_->recv(group_, peer, tag, data, bytes, nullptr, request, &error_);
  }
  int allreduce(float* data, std::size_t count, std::uint64_t tag, roda_request** request) {
    roda_collective_args args{};
    args.struct_size = sizeof args;
    args.collective = RODA_ALLREDUCE;
    args.dtype = RODA_FLOAT32;
    args.op = RODA_SUM;
    args.input = args.output = data;
    args.count = count;
    args.tag = tag;
    return table_->collective_start(group_, &args, request, &error_);
  }
  // Sleeps on the descriptor in between, as an engine does.
  int wait(roda_request* request) {
    int code = RODA_OK;
    const auto pending = [&] {
      return request != nullptr && (code = table_->request_test(group_, request, &error_)) == RODA_IN_PROGRESS;
    };
    while (pending()) {
      if (table_->progress(context_) > 0 || table_->arm(context_) == RODA_AGAIN || !pending()) {
        if (code != RODA_IN_PROGRESS) break;
        continue;
      }
      pollfd waiting{table_->event_fd(context_), POLLIN, 0};
      ::poll(&waiting, 1, -1);
    }
    return code;
  }

 private:
  static void log(void* self, int32_t level, const char*, const char* text) {
    if (level == RODA_LOG_WARNING) static_cast<Member*>(self)->warnings_ += text;
  }
  static const char* knob(void* self, const char* name) {
    const Knobs& knobs = static_cast<Member*>(self)->knobs_;
    const auto found = knobs.find(name);
    return found == knobs.end() ? nullptr : found->second.c_str();
  }
  static int32_t reduce(void*, void* dst, const void* a, const void* b, size_t count, int32_t dtype, int32_t) {
    if (dtype != RODA_FLOAT32) return RODA_ERR_UNSUPPORTED;
    for (size_t i = 0; i < count; ++i) {
      static_cast<float*>(dst)[i] = static_cast<const float*>(a)[i] + static_cast<const float*>(b)[i];
    }
    return RODA_OK;
  }
  static void copy(void*, void* dst, const void* src, size_t bytes) {
    std::copy_n(static_cast<const char*>(src), bytes, static_cast<char*>(dst));
  }

  const roda_transport* table_;
  const Knobs knobs_;
  Board::Seat seat_;
  roda_host host_{};
  std::vector<std::int32_t> world_ranks_;
  roda_group_desc desc_{};
  roda_error error_{};
  roda_context* context_ = nullptr;
  roda_group* group_ = nullptr;
  int code_ = RODA_OK;
  std::string warnings_;
};

// `body(rank)` on `size` threads.
inline void run_ranks(int size, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace roda::transport_test
