// Buffers that are registered with a communicator of the NCCL double. It only keeps account of them.
#pragma once

#include <cstddef>
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

  void* add(const void* buffer, std::size_t bytes);
  // False for a handle that it does not know.
  bool remove(void* handle);
  // How many were ever added, the one that is to come included.
  int next_number() { return ++asked_; }
  // A collective works on these.
  void note(const void* from, std::size_t from_bytes, const void* to, std::size_t to_bytes);

 private:
  bool covers(const void* data, std::size_t bytes) const;

  std::mutex guard_;
  std::map<const char*, std::size_t> ranges_;  // guarded
  int asked_ = 0;
  bool is_given_up_ = false;
};

}  // namespace roda::nccl_double
