// Helper threads that take no part in the process's signals.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace roda {

// While it lives this thread has every signal blocked, and so have the threads that it starts: the user's handlers must
// not run on our threads or a library's, and a peer's death must not raise SIGPIPE there.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// `name` is at most 15 characters; it is what top and gdb show.
template <typename Body>
std::thread start_thread(const char* name, Body&& body) {
  const SignalsBlocked blocked;
  std::thread thread(std::forward<Body>(body));
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace roda
