// One pending operation, from the caller's point of view, and what MPI needs kept for it.
#pragma once

#include <mpi.h>
#include <roda/sdk/error.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/base/coarse_clock.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

using Clock = CoarseClock;

// Belongs to its group until the caller has seen its end; if MPI still works on it then (an abort: what was started
// can't be taken back), it becomes an orphan of the context's queue.
struct Operation {
  enum class Kind { kSend, kReceive, kCollective };
  struct Range {
    const void* base = nullptr;
    std::size_t bytes = 0;
  };

  // Keeps the memory of vectors between uses.
  void restart(Kind new_kind, int new_peer, std::uint64_t new_tag) {
    kind = new_kind;
    peer = new_peer;
    tag = new_tag;
    is_matched = false;
    is_orphan = false;
    in_flight = 0;
    touched[0] = touched[1] = {};
    code = RODA_OK;
    started = Clock::now();
  }

  // The first failure stays.
  void fail(const sdk::Failure& failure) {
    if (code != RODA_OK) return;
    code = failure.code();
    text = failure.what();
  }

  // Nothing more will happen to it: MPI is through, and a receive had its message.
  bool is_done() const { return in_flight == 0 && (kind != Kind::kReceive || is_matched); }

  bool touches(const void* base, std::size_t bytes) const {
    return !is_done() && (sdk::overlaps(touched[0].base, touched[0].bytes, base, bytes) ||
                          sdk::overlaps(touched[1].base, touched[1].bytes, base, bytes));
  }

  Kind kind = Kind::kSend;
  std::size_t place = 0;  // among those its group has handed out
  int peer = -1;          // group rank; -1 for a collective
  std::uint64_t tag = 0;
  bool is_matched = false;  // a receive whose message is known
  bool is_orphan = false;
  int in_flight = 0;  // MPI requests
  Range touched[2];   // the caller's memory: data, or input and output
  Clock::time_point started;
  int code = RODA_OK;
  std::string text;

  std::vector<MPI_Datatype> types;  // freed with the operation
  std::vector<char> scratch;        // takes a message whose length was wrong
  std::vector<char> frame;          // what goes in front of a message's data, and the data if they are few
  std::vector<int> send_counts, send_offsets, receive_counts, receive_offsets;
  std::vector<MPI_Datatype> send_types, receive_types;
};

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
