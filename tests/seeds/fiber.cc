#include "tests/seeds/fiber.h"

#include <cxxabi.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

namespace roda::seeds {
namespace {

constexpr std::size_t kStack = 256 << 10;
constexpr std::size_t kGuard = 4096;

// Kept for the next fibers.
std::vector<std::byte*>& free_stacks() {
  static std::vector<std::byte*> stacks;
  return stacks;
}

std::byte* take_stack() {
  auto& stacks = free_stacks();
  if (!stacks.empty()) {
    std::byte* const stack = stacks.back();
    stacks.pop_back();
    return stack;
  }
  void* const memory = ::mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || ::mprotect(memory, kGuard, PROT_NONE) != 0) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

Fiber* entering = nullptr;

}  // namespace

Fiber::Fiber(int of_rank, std::function<void()> work) : rank(of_rank), body(std::move(work)), stack_(take_stack()) {
  ::getcontext(&first_);
  first_.uc_stack.ss_sp = stack_;
  first_.uc_stack.ss_size = kStack;
  ::makecontext(&first_, &Fiber::begin, 0);
}

Fiber::~Fiber() { free_stacks().push_back(stack_); }

void Fiber::begin() {
  Fiber* const self = entering;
  self->body();
  self->has_ended = true;
  self->leave();
}

void Fiber::enter() {
  void* const of_thread = abi::__cxa_get_globals();
  std::array<void*, 2> exceptions{};
  std::memcpy(exceptions.data(), of_thread, sizeof exceptions);
  std::memcpy(of_thread, exceptions_.data(), sizeof exceptions);
  const int error = std::exchange(errno, errno_);
  entering = this;
  if (::_setjmp(there_) == 0) {
    if (std::exchange(has_begun_, true)) ::_longjmp(here_, 1);
    ::setcontext(&first_);
  }
  errno_ = std::exchange(errno, error);
  std::memcpy(exceptions_.data(), of_thread, sizeof exceptions);
  std::memcpy(of_thread, exceptions.data(), sizeof exceptions);
}

void Fiber::leave() {
  if (::_setjmp(here_) == 0) ::_longjmp(there_, 1);
}

}  // namespace roda::seeds
