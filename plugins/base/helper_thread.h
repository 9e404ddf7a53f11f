// Helper threads that take no part in the process's signals.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "plugins/base/process_limits.h"

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

// `name` is at most 15 characters; it is what top and gdb show. Throws std::runtime_error where no thread is to be had,
// with the limit in its text.
template <typename Body>
std::thread start_thread(const char* name, Body&& body) try {
  const SignalsBlocked blocked;
  std::thread thread(std::forward<Body>(body));
  pthread_setname_np(thread.native_handle(), name);
  return thread;
} catch (const std::system_error& error) {
  throw std::runtime_error(std::string("the thread ") + name + " can't be started: " + error.code().message() + "; " +
                           thread_limits());
}

// A call that may block for long, on a thread of its own. One thread at a time. Whoever destroys it does not wait for a
// call that has not returned, so what that works on is its own or lives as long as the process.
template <typename Result>
class HelperCall {
 public:
  ~HelperCall() {
    if (thread_.joinable()) is_running() ? thread_.detach() : thread_.join();
  }
  template <typename Body>
  void start(const char* name, Body&& body) {
    std::packaged_task<Result()> task(std::forward<Body>(body));
    result_ = task.get_future();
    thread_ = start_thread(name, std::move(task));
  }
  // Whether the thread was started, and its result has not been taken.
  bool is_started() const { return result_.valid(); }
  bool is_running() const {
    return result_.valid() && result_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  }
  // The result of a thread that was started and does not run any more, once. Throws what the body threw.
  Result take() {
    thread_.join();
    return result_.get();
  }

 private:
  std::future<Result> result_;
  std::thread thread_;
};

}  // namespace roda
