// What autotuning may change while a job runs. It travels in the log, so that every rank changes it at the same place.
#pragma once

#include <cstdint>
#include <string>

namespace roda::negotiate {

struct Tuning {
  std::uint64_t threshold = 0;    // bytes of one bucket; 0: no fusion
  std::uint32_t hold_us = 0;      // longest time that a ready tensor waits for others; 0: none waits
  std::uint32_t outstanding = 1;  // buckets launched and not completed, per process set
  std::string select;             // rules that come before the selection table's, as in HOROVOD_SELECT
  friend bool operator==(const Tuning&, const Tuning&) = default;
};

}  // namespace roda::negotiate
