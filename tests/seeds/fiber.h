// A thread of a simulated rank: a stack of its own, on one real thread.
#pragma once

#include <poll.h>
#include <ucontext.h>

#include <array>
#include <chrono>
#include <csetjmp>
#include <cstddef>
#include <functional>
#include <span>

namespace roda::seeds {

struct Fiber {
  Fiber(int of_rank, std::function<void()> work);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs it until it leaves.
  void enter();
  // Within it: back to who entered.
  void leave();

  const int rank;
  std::function<void()> body;
  bool has_ended = false;
  int locks = 0;  // that it holds: it is not switched, nor does its rank die, while it holds one

  // --- while it sleeps ---
  bool is_asleep = false, is_rung = false, is_net = false;
  std::span<pollfd> descriptors;
  const void* address = nullptr;
  std::chrono::nanoseconds until{};

 private:
  static void begin();
  ucontext_t first_{};
  // Switches that leave the signal mask alone cost no system call.
  std::jmp_buf here_{}, there_{};
  bool has_begun_ = false;
  std::byte* stack_;
  // What the C++ library and the system keep for each thread.
  std::array<void*, 2> exceptions_{};
  int errno_ = 0;
};

}  // namespace roda::seeds
