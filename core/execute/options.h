// The sizes that shape execution.
#pragma once

#include <cstddef>
#include <cstdint>

namespace roda::execute {

// In bytes. All but test_bytes must be equal on all ranks of a group.
struct ExecuteOptions {
  std::size_t slice_bytes = 1 << 20;      // of the whole tensor: messages are pipelined in slices of it
  std::uint32_t slices_in_flight = 4;     // W
  std::size_t segment_bytes = 256 << 10;  // longest message; longer ones go in parts
  std::size_t block_bytes = 256 << 10;    // staging block per rank (one-sided on memory that peers can't reach)
  std::size_t get_bytes = 256 << 10;      // longest transport get or put
  std::size_t level_bytes = 2 << 20;      // slice of composed schedules: levels work on different slices at a time
  // The same on a device: its collectives cost more to begin and less to move.
  std::size_t device_piece_bytes = 8 << 20;
  std::size_t test_bytes = 1 << 20;  // data moved by one test()
};

}  // namespace roda::execute
