// The system, as the fibers of a simulated machine find it: their calls for the time, threads, locks, sleep and
// connections end here, since a program's own functions go before those of the libraries that it loads. Other calls,
// and those outside of a machine, are the system's.
#include "tests/seeds/system.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>

#include "tests/seeds/machine.h"

// The next definition of a function after this program's.
#define REAL(name) static const auto real = reinterpret_cast<decltype(&::name)>(::dlsym(RTLD_NEXT, #name))

namespace roda::seeds {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// Null outside of fibers.
Machine* within() {
  Machine* const machine = Machine::now_running();
  return machine != nullptr && machine->fiber() != nullptr ? machine : nullptr;
}

Time time_of(const timespec& time) { return seconds(time.tv_sec) + nanoseconds(time.tv_nsec); }

Time after_ms(const Machine& machine, int limit_ms) {
  return limit_ms < 0 ? Time::max() : machine.time() + milliseconds(limit_ms);
}

// Calls `look` until it finds something (> 0), for that many milliseconds.
template <typename Look>
int look_and_sleep(Machine& machine, std::span<pollfd> descriptors, int limit_ms, Look look) {
  machine.may_switch();
  const Time until = after_ms(machine, limit_ms);
  while (true) {
    const int found = look();
    if (found != 0 || machine.time() >= until) return found;
    machine.sleep(descriptors, nullptr, until, limit_ms < 0 || milliseconds(limit_ms) >= kNet);
    if (machine.is_burying()) return look();
  }
}

long futex(Machine& machine, const std::uint32_t* word, int operation, std::uint32_t value, const timespec* limit) {
  const int command = operation & FUTEX_CMD_MASK;
  if (command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET) {
    machine.ring(word, value);
    return 0;
  }
  if (std::atomic_ref(*const_cast<std::uint32_t*>(word)).load() != value) {
    errno = EAGAIN;
    return -1;
  }
  Time until = Time::max();
  if (limit != nullptr) until = (command == FUTEX_WAIT_BITSET ? Time() : machine.time()) + time_of(*limit);
  const bool is_net = until == Time::max() || until - machine.time() >= kNet;
  if (machine.sleep({}, word, until, is_net)) return 0;
  errno = ETIMEDOUT;
  return -1;
}

int wait_for_signal(Machine& machine, const pthread_cond_t* condition, pthread_mutex_t* mutex, Time until) {
  ::pthread_mutex_unlock(mutex);
  const bool is_net = until == Time::max() || until - machine.time() >= kNet;
  const bool is_rung = machine.sleep({}, condition, until, is_net);
  ::pthread_mutex_lock(mutex);
  return is_rung ? 0 : ETIMEDOUT;
}

// Most looks at a connection find nothing.
template <typename Receive>
ssize_t receive(int fd, Receive real) {
  Machine* const machine = Machine::now_running();
  if (machine == nullptr) return real();
  if (machine->network().is_empty(fd)) {
    errno = EAGAIN;
    return -1;
  }
  const ssize_t got = real();
  if (got > 0) machine->network().took(fd, static_cast<std::size_t>(got));
  return got;
}

struct Timer {
  std::uint64_t setting = 0;  // the latest
};
std::map<int, std::shared_ptr<Timer>>& timers() {
  static std::map<int, std::shared_ptr<Timer>> all;
  return all;
}

void expire(Machine& machine, int fd, const std::weak_ptr<Timer>& which, std::uint64_t setting, Time interval) {
  const auto timer = which.lock();
  if (timer == nullptr || timer->setting != setting) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t rung = ::write(fd, &one, sizeof one);
  if (interval == Time()) return;
  machine.at(
      machine.time() + interval,
      [&machine, fd, which, setting, interval] { expire(machine, fd, which, setting, interval); }, true);
}

}  // namespace

int real_poll(std::vector<pollfd>& descriptors) {
  REAL(poll);
  return real(descriptors.data(), descriptors.size(), 0);
}

int real_setsockopt(int fd, int level, int name, const void* value, socklen_t length) {
  REAL(setsockopt);
  return real(fd, level, name, value, length);
}

int close_under(int fd, int other) { return ::dup3(other, fd, O_CLOEXEC); }

}  // namespace roda::seeds

using roda::seeds::Machine;
using roda::seeds::Time;
using roda::seeds::within;

#pragma GCC visibility push(default)
extern "C" {

// --- time -----------------------------------------------------------------------------------------------------------

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  REAL(clock_gettime);
  Machine* const machine = Machine::now_running();
  const bool is_of_process = clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID;
  if (machine == nullptr || is_of_process) return real(clock, time);
  if (within() != nullptr) machine->may_switch();
  const Time now = machine->time();
  *time = {.tv_sec = now / std::chrono::seconds(1), .tv_nsec = (now % std::chrono::seconds(1)).count()};
  return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  REAL(clock_nanosleep);
  Machine* const machine = within();
  if (machine == nullptr) return real(clock, flags, time, left);
  const bool is_end = (flags & TIMER_ABSTIME) != 0;
  machine->sleep({}, nullptr, (is_end ? Time() : machine->time()) + roda::seeds::time_of(*time), false);
  return 0;
}

int nanosleep(const timespec* time, timespec* left) { return clock_nanosleep(CLOCK_MONOTONIC, 0, time, left); }

int timerfd_create(int clock, int flags) noexcept {
  REAL(timerfd_create);
  if (within() == nullptr) return real(clock, flags);
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd >= 0) roda::seeds::timers()[fd] = std::make_shared<roda::seeds::Timer>();
  return fd;
}

int timerfd_settime(int fd, int flags, const itimerspec* time, itimerspec* old) noexcept {
  REAL(timerfd_settime);
  const auto found = roda::seeds::timers().find(fd);
  Machine* const machine = Machine::now_running();
  if (machine == nullptr || found == roda::seeds::timers().end()) return real(fd, flags, time, old);
  const std::uint64_t setting = ++found->second->setting;
  const Time first = roda::seeds::time_of(time->it_value), interval = roda::seeds::time_of(time->it_interval);
  if (first == Time()) return 0;
  const std::weak_ptr<roda::seeds::Timer> timer = found->second;
  machine->at(
      machine->time() + first, [=] { roda::seeds::expire(*machine, fd, timer, setting, interval); },
      interval != Time());
  return 0;
}

// --- threads --------------------------------------------------------------------------------------------------------

int sched_yield() noexcept {
  REAL(sched_yield);
  Machine* const machine = within();
  if (machine == nullptr) return real();
  machine->yield();
  return 0;
}

int sched_getcpu() noexcept {
  REAL(sched_getcpu);
  return within() == nullptr ? real() : within()->rank();
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) noexcept {
  REAL(pthread_create);
  Machine* const machine = within();
  if (machine == nullptr) return real(thread, attributes, body, argument);
  *thread = reinterpret_cast<pthread_t>(machine->start(machine->rank(), [=] { body(argument); }));
  return 0;
}

int pthread_join(pthread_t thread, void** result) {
  REAL(pthread_join);
  Machine* const machine = within();
  if (machine == nullptr) return real(thread, result);
  const auto* fiber = reinterpret_cast<const roda::seeds::Fiber*>(thread);
  while (!fiber->has_ended)
    machine->is_burying() ? machine->yield() : void(machine->sleep({}, fiber, Time::max(), true));
  return 0;
}

int pthread_setname_np(pthread_t thread, const char* name) noexcept {
  REAL(pthread_setname_np);
  return within() == nullptr ? real(thread, name) : 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  REAL(pthread_mutex_lock);
  Machine* const machine = within();
  if (machine == nullptr) return real(mutex);
  machine->may_switch();
  while (::pthread_mutex_trylock(mutex) != 0) machine->fiber()->leave();
  return 0;
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  REAL(pthread_mutex_trylock);
  const int taken = real(mutex);
  if (Machine* const machine = within(); machine != nullptr && taken == 0) ++machine->fiber()->locks;
  return taken;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  REAL(pthread_mutex_unlock);
  if (Machine* const machine = within()) --machine->fiber()->locks;
  return real(mutex);
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  return roda::seeds::wait_for_signal(*within(), condition, mutex, Time::max());
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t, const timespec* until) {
  return roda::seeds::wait_for_signal(*within(), condition, mutex, roda::seeds::time_of(*until));
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  return roda::seeds::wait_for_signal(*within(), condition, mutex, roda::seeds::time_of(*until));
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  if (Machine* const machine = Machine::now_running()) machine->ring(condition, 1);
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  if (Machine* const machine = Machine::now_running()) machine->ring(condition, SIZE_MAX);
  return 0;
}

long syscall(long number, ...) noexcept {
  REAL(syscall);
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& each : a) each = va_arg(list, long);
  va_end(list);
  Machine* const machine = within();
  if (machine == nullptr || number != SYS_futex) return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  return roda::seeds::futex(*machine, reinterpret_cast<const std::uint32_t*>(a[0]), static_cast<int>(a[1]),
                            static_cast<std::uint32_t>(a[2]), reinterpret_cast<const timespec*>(a[3]));
}

// --- descriptors ----------------------------------------------------------------------------------------------------

int epoll_wait(int fd, epoll_event* events, int most, int limit_ms) {
  REAL(epoll_wait);
  Machine* const machine = within();
  if (machine == nullptr || limit_ms == 0) return real(fd, events, most, limit_ms);
  pollfd news{fd, POLLIN, 0};
  return roda::seeds::look_and_sleep(*machine, std::span(&news, 1), limit_ms,
                                     [&] { return real(fd, events, most, 0); });
}

int poll(pollfd* descriptors, nfds_t count, int limit_ms) {
  REAL(poll);
  Machine* const machine = within();
  if (machine == nullptr || limit_ms == 0) return real(descriptors, count, limit_ms);
  return roda::seeds::look_and_sleep(*machine, std::span(descriptors, count), limit_ms,
                                     [&] { return real(descriptors, count, 0); });
}

int epoll_ctl(int poll, int operation, int fd, epoll_event* event) noexcept {
  REAL(epoll_ctl);
  Machine* const machine = within();
  if (machine == nullptr) return real(poll, operation, fd, event);
  machine->may_switch();
  machine->note_io();
  const int done = real(poll, operation, fd, event);
  return machine->is_burying() ? 0 : done;  // of the dead's descriptors nothing is left to be watched
}

ssize_t write(int fd, const void* data, std::size_t bytes) {
  REAL(write);
  Machine* const machine = Machine::now_running();
  if (machine == nullptr) return real(fd, data, bytes);
  if (machine->fiber() != nullptr) machine->may_switch();
  machine->note_io();
  return real(fd, data, bytes);
}

int close(int fd) {
  REAL(close);
  if (Machine* const machine = Machine::now_running()) {
    machine->network().forget(fd);
    machine->disown(fd);
    machine->note_io();
  }
  roda::seeds::timers().erase(fd);
  return real(fd);
}

int pipe2(int ends[2], int flags) noexcept {
  REAL(pipe2);
  const int made = real(ends, flags);
  if (Machine* const machine = within(); machine != nullptr && made == 0) {
    machine->own(ends[0]);
    machine->own(ends[1]);
  }
  return made;
}

// Memory is taken when it is touched.
int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  REAL(fallocate);
  return within() == nullptr ? real(fd, mode, offset, bytes) : 0;
}

// --- connections ----------------------------------------------------------------------------------------------------

int socket(int family, int type, int protocol) noexcept {
  REAL(socket);
  Machine* const machine = within();
  return machine == nullptr || family != AF_INET ? real(family, type, protocol) : machine->network().socket();
}

int bind(int fd, const sockaddr* address, socklen_t length) noexcept {
  REAL(bind);
  Machine* const machine = within();
  if (machine == nullptr || !machine->network().has(fd)) return real(fd, address, length);
  return machine->network().bind(fd, *reinterpret_cast<const sockaddr_in*>(address));
}

int listen(int fd, int backlog) noexcept {
  REAL(listen);
  Machine* const machine = within();
  if (machine == nullptr || !machine->network().has(fd)) return real(fd, backlog);
  return machine->network().listen(fd);
}

int accept4(int fd, sockaddr* peer, socklen_t* length, int flags) {
  REAL(accept4);
  Machine* const machine = within();
  if (machine == nullptr || !machine->network().has(fd)) return real(fd, peer, length, flags);
  return machine->network().accept(fd, peer, length);
}

int connect(int fd, const sockaddr* address, socklen_t length) {
  REAL(connect);
  Machine* const machine = within();
  if (machine == nullptr || !machine->network().has(fd)) return real(fd, address, length);
  return machine->network().connect(fd, *reinterpret_cast<const sockaddr_in*>(address));
}

int getsockname(int fd, sockaddr* address, socklen_t* length) noexcept {
  REAL(getsockname);
  Machine* const machine = Machine::now_running();
  if (machine == nullptr || !machine->network().has(fd)) return real(fd, address, length);
  return machine->network().name(fd, false, address, length);
}

int getpeername(int fd, sockaddr* address, socklen_t* length) noexcept {
  REAL(getpeername);
  Machine* const machine = Machine::now_running();
  if (machine == nullptr || !machine->network().has(fd)) return real(fd, address, length);
  return machine->network().name(fd, true, address, length);
}

int setsockopt(int fd, int level, int name, const void* value, socklen_t length) noexcept {
  Machine* const machine = Machine::now_running();
  if (machine != nullptr && machine->network().has(fd)) return 0;
  return roda::seeds::real_setsockopt(fd, level, name, value, length);
}

ssize_t send(int fd, const void* data, std::size_t bytes, int flags) {
  REAL(send);
  if (Machine* const machine = within()) machine->may_switch();
  const ssize_t sent = real(fd, data, bytes, flags);
  if (Machine* const machine = Machine::now_running(); machine != nullptr && sent > 0) machine->note_sent(fd);
  return sent;
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  REAL(sendmsg);
  if (Machine* const machine = within()) machine->may_switch();
  const ssize_t sent = real(fd, message, flags);
  if (Machine* const machine = Machine::now_running(); machine != nullptr && sent > 0) machine->note_sent(fd);
  return sent;
}

ssize_t recv(int fd, void* into, std::size_t bytes, int flags) {
  REAL(recv);
  return roda::seeds::receive(fd, [&] { return real(fd, into, bytes, flags); });
}

ssize_t readv(int fd, const iovec* pieces, int count) {
  REAL(readv);
  return roda::seeds::receive(fd, [&] { return real(fd, pieces, count); });
}

int shutdown(int fd, int how) noexcept {
  REAL(shutdown);
  const int done = real(fd, how);
  if (Machine* const machine = Machine::now_running()) machine->note_sent(fd);
  return done;
}

}  // extern "C"
#pragma GCC visibility pop
