// Ranks as forked processes under GoogleTest: each runs a function, its failed expectations fail the test.
#pragma once

#include <roda/abi/transport.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace roda::shm_test {

// Key-value exchange and barrier in anonymous shared memory, made before the ranks are forked.
class Board {
 public:
  Board();
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  roda_exchange exchange(int rank, int generation = 0);
  // Blocks until `size` ranks have called it with the same count of calls before.
  void barrier(int size);
  // A number that ranks can tell each other.
  void set(int index, std::uint64_t value);
  std::uint64_t wait_for(int index);

 private:
  struct Shared;
  static std::int32_t put(void* self, const char* key, const void* value, std::size_t bytes, roda_error* error);
  static std::int32_t get(void* self, std::int32_t rank, const char* key, void* value, std::size_t* bytes,
                          roda_error* error);
  Shared* shared_;
};

using Knobs = std::map<std::string, std::string>;

// A context and a group over all ranks of a test, for one process; every call of the ABI with its codes checked.
class Member {
 public:
  Member(Board& board, int rank, int size, const Knobs& knobs = {}, std::uint64_t timeout_ns = 20'000'000'000);
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // Drives the group until it is formed or failed; returns the code.
  int form();
  // Progress until the request ends; null is ended already.
  int wait(roda_request* request);
  // The last error's text, and the world rank it names.
  const roda_error& error() const { return error_; }
  void send(int peer, std::uint64_t tag, const void* data, std::size_t bytes);
  roda_request* start_send(int peer, std::uint64_t tag, const void* data, std::size_t bytes);
  roda_request* start_recv(int peer, std::uint64_t tag, void* data, std::size_t bytes);
  int recv(int peer, std::uint64_t tag, void* data, std::size_t bytes);
  roda_request* start_get(int peer, std::uint32_t slot, std::size_t offset, void* to, std::size_t bytes);
  roda_request* start_put(int peer, std::uint32_t slot, std::size_t offset, const void* from, std::size_t bytes);
  void signal(int peer, std::uint32_t index, std::uint64_t value);
  // By progress and yields; with `sleep` by arm() and poll() on the descriptor.
  void wait_signal(int peer, std::uint32_t index, std::uint64_t value, bool sleep = false);
  // Everybody is here.
  void barrier();
  // Progress until the group is broken; the cause is in error().
  int wait_for_abort();
  // Arms and sleeps on the descriptor until `done` says so.
  void sleep_until(const std::function<bool()>& done);

  const roda_transport& t;
  roda_context* context = nullptr;
  roda_group* group = nullptr;
  const int rank;
  const int size;

 private:
  roda_host host_{};
  Knobs knobs_;
  std::vector<std::int32_t> world_ranks_;
  roda_error error_{};
  std::uint64_t barriers_ = 0;
};

// Forks `size` ranks. Fails the current test for each one that fails or dies. `dies`: this rank may be killed.
void run_ranks(int size, const std::function<void(int rank)>& body, int dies = -1);

// Bytes that differ for every (seed, position).
std::vector<unsigned char> pattern(std::size_t bytes, unsigned seed);

}  // namespace roda::shm_test
