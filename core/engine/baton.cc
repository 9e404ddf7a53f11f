#include "core/engine/baton.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace roda::engine {

// std::atomic's own wait knows no limit.
void Baton::wait_pulse(std::uint32_t seen, int limit_ms) {
  const timespec limit{.tv_sec = limit_ms / 1000, .tv_nsec = limit_ms % 1000 * 1'000'000L};
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &pulse_, FUTEX_WAIT_PRIVATE, seen, limit_ms < 0 ? nullptr : &limit, nullptr, 0);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

void Baton::wake_sleepers() { syscall(SYS_futex, &pulse_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace roda::engine
