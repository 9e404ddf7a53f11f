// A transport's plugin, driven the way the engine drives it: long messages in segments with a few receives posted,
// spinning first, sleeping on the descriptor after that.
#include <dlfcn.h>
#include <poll.h>
#include <roda/abi/transport.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "plugins/base/wait_policy.h"
#include "transports/tcp/bench/contestant.h"

namespace roda::tcp_bench {

namespace {

constexpr std::size_t kSegment = 256 << 10;  // core/execute/options.h has the same
constexpr std::size_t kInFlight = 4;

class PluginEnd final : public Contestant {
 public:
  PluginEnd(Board& board, int rank, const roda_transport* table, std::string name)
      : t_(*table), name_(std::move(name)), seat_{&board, rank, name_} {
    host_ = {sizeof host_, RODA_ABI_VERSION, this, &log, &knob, nullptr, nullptr};
    check(t_.context_create(&host_, &context_, &error_));
    desc_ = {sizeof desc_,
             rank,
             2,
             0,
             world_,
             name_.c_str(),
             1,
             30'000'000'000u,
             {sizeof(roda_exchange), 0, &seat_, &put, &get}};
    check(t_.group_create(context_, &desc_, &group_, &error_));
    int code = RODA_IN_PROGRESS;
    while ((code = t_.group_test(group_, &error_)) == RODA_IN_PROGRESS) t_.progress(context_);
    check(code);
  }
  ~PluginEnd() override {
    t_.group_destroy(group_);
    t_.context_destroy(context_);
  }
  void send(const char* data, std::size_t bytes) override { move(data, bytes, nullptr, 0); }
  void receive(char* data, std::size_t bytes) override { move(nullptr, 0, data, bytes); }
  void swap(const char* out, char* in, std::size_t bytes) override { move(out, bytes, in, bytes); }

 private:
  struct Seat {
    Board* board;
    int rank;
    std::string name;
  };
  static void log(void*, std::int32_t level, const char* who, const char* text) {
    if (level >= RODA_LOG_WARNING) std::fprintf(stderr, "%s: %s\n", who, text);
  }
  static const char* knob(void*, const char* name) { return std::getenv(name); }
  static std::int32_t put(void* self, const char* key, const void* value, std::size_t bytes, roda_error*) {
    const Seat& seat = *static_cast<Seat*>(self);
    const int index = seat.board->used.fetch_add(1);
    if (index >= Board::kEntries || bytes > sizeof(Board::Entry::value)) return RODA_ERR_NO_MEMORY;
    Board::Entry& entry = seat.board->entries[index];
    entry.rank = seat.rank;
    entry.bytes = bytes;
    std::snprintf(entry.key, sizeof entry.key, "%s/%s", seat.name.c_str(), key);
    std::memcpy(entry.value, value, bytes);
    entry.is_ready.store(1);
    return RODA_OK;
  }
  static std::int32_t get(void* self, std::int32_t rank, const char* key, void* value, std::size_t* bytes,
                          roda_error*) {
    const Seat& seat = *static_cast<Seat*>(self);
    const std::string wanted = seat.name + "/" + key;
    for (int i = 0; i < std::min<int>(seat.board->used.load(), Board::kEntries); ++i) {
      const Board::Entry& entry = seat.board->entries[i];
      if (entry.is_ready.load() == 0 || entry.rank != rank || wanted != entry.key) continue;
      *bytes = entry.bytes;
      std::memcpy(value, entry.value, entry.bytes);
      return RODA_OK;
    }
    return RODA_IN_PROGRESS;
  }

  void check(int code) {
    if (code < 0) give_up(name_ + ": " + error_.message);
  }

  // Starts what fits, then drops what has ended.
  template <typename Start>
  void fill(std::vector<roda_request*>& pending, std::size_t bytes, std::size_t* started, Start&& start) {
    while (pending.size() < kInFlight && (*started < bytes || (bytes == 0 && *started == 0))) {
      const std::size_t length = std::min(kSegment, bytes - *started);
      roda_request* request = nullptr;
      const int code = start(*started, length, &request);
      check(code);
      if (code == RODA_AGAIN) break;
      *started += std::max<std::size_t>(length, 1);
      if (request != nullptr) pending.push_back(request);
    }
    std::erase_if(pending, [&](roda_request* request) {
      const int code = t_.request_test(group_, request, &error_);
      check(code);
      return code == RODA_OK;
    });
  }

  void move(const char* out, std::size_t to_send, char* in, std::size_t to_receive) {
    std::size_t sent = 0, received = 0;
    const int peer = 1 - seat_.rank;
    const auto step = [&] {
      if (in != nullptr) {
        fill(receives_, to_receive, &received, [&](std::size_t at, std::size_t length, roda_request** request) {
          return t_.recv(group_, peer, 7, in + at, length, nullptr, request, &error_);
        });
      }
      if (out != nullptr) {
        fill(sends_, to_send, &sent, [&](std::size_t at, std::size_t length, roda_request** request) {
          return t_.send(group_, peer, 7, out + at, length, nullptr, request, &error_);
        });
      }
      return sends_.empty() && receives_.empty() && (out == nullptr || sent >= to_send) &&
             (in == nullptr || received >= to_receive);
    };
    for (std::uint32_t idle = 0; !step();) {
      if (t_.progress(context_) > 0) {
        idle = 0;
      } else if (policy_.worth_spinning(idle)) {
        policy_.relax(idle++);
      } else {
        sleep(step);
        idle = 0;
      }
    }
  }

  template <typename Step>
  void sleep(Step&& step) {
    if (t_.arm(context_) == RODA_OK && !step()) {
      pollfd waiting{t_.event_fd(context_), POLLIN, 0};
      ::poll(&waiting, 1, 100);
    }
    if (t_.disarm != nullptr) t_.disarm(context_);
  }

  const roda_transport& t_;
  const std::string name_;
  Seat seat_;
  WaitPolicy policy_{2, 2};
  std::int32_t world_[2] = {0, 1};
  roda_host host_{};
  roda_group_desc desc_{};
  roda_error error_{};
  roda_context* context_ = nullptr;
  roda_group* group_ = nullptr;
  std::vector<roda_request*> sends_;
  std::vector<roda_request*> receives_;
};

}  // namespace

std::unique_ptr<Contestant> make_plugin(Board& board, int rank, const std::string& path, const std::string& name) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) give_up(::dlerror());
  const auto entry = reinterpret_cast<roda_transport_entry>(::dlsym(library, RODA_TRANSPORT_SYMBOL));
  if (entry == nullptr) give_up(path + " is no transport");
  return std::make_unique<PluginEnd>(board, rank, entry(), name);
}

}  // namespace roda::tcp_bench
