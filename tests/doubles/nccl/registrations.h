// Buffers and windows that are registered with a communicator of the NCCL double. It only keeps account of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "transports/nccl/library.h"

namespace roda::nccl_double {

// Any thread.
class Registrations {
 public:
  Registrations();
  // The communicator ends: what is left is counted, unless it was given up.
  ~Registrations();
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;
  void give_up() { is_given_up_ = true; }

  void* add(const void* buffer, std::size_t bytes, bool is_window);
  // False for a handle that it does not know.
  bool remove(void* handle);
  // The windows that came and went so far, in their order: equal where that was.
  std::uint64_t note_window(bool comes, std::size_t bytes);
  // How many were ever added, the one that is to come included.
  int next_number() { return ++asked_; }
  // A collective works on these. Where they lie in what is registered, as a number that is equal on all ranks.
  std::uint64_t note(const void* from, std::size_t from_bytes, const void* to, std::size_t to_bytes);

 private:
  struct Range {
    std::size_t bytes;
    std::uint64_t window;  // among those of the communicator, from 1; 0: none
  };
  std::uint64_t place(const void* data, std::size_t bytes) const;

  std::mutex guard_;
  std::map<const char*, Range> ranges_;  // guarded, as the rest
  std::uint64_t windows_ = 0;
  std::uint64_t history_ = 0;
  int asked_ = 0;
  bool is_given_up_ = false;
};

}  // namespace roda::nccl_double
