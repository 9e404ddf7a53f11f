// Helper threads that take no part in the process's signals.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace roda::nccl {

// The user's handlers must not run on our threads, nor on those that NCCL starts from them. `name` is at most 15
// characters; it is what top and gdb show.
template <typename Body>
std::thread start_thread(const char* name, Body&& body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::forward<Body>(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace roda::nccl
