// The MPI requests of a context that are under way, tested together.
#pragma once

#include <roda/sdk/request_pool.hpp>

#include <vector>

#include "plugins/base/coarse_clock.h"
#include "transports/mpi/runtime.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

using Clock = CoarseClock;

// One pending operation, from the caller's point of view, and what MPI needs kept for it.
//
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

// One thread at a time, that of the context; what calls MPI is called with a Turn.
class Queue {
 public:
  explicit Queue(Runtime& runtime) : runtime_(runtime) {}

  Operation* take() { return pool_.take(); }
  void give_back(Operation* operation) {
    finished_types_.insert(finished_types_.end(), operation->types.begin(), operation->types.end());
    operation->types.clear();
    std::vector<char>().swap(operation->scratch);
    pool_.give_back(operation);
  }

  // `request` counts as in flight for the operation until it is complete.
  void add(MPI_Request request, Operation* operation) {
    requests_.push_back(request);
    owners_.push_back(operation);
    ++operation->in_flight;
  }
  // Room for `count` more, so that add() does not fail once MPI has the request.
  void reserve(std::size_t count) {
    requests_.reserve(requests_.size() + count);
    owners_.reserve(owners_.size() + count);
  }

  // Tests all; returns how many completed. An operation with an error is failed with MPI's text. Throws sdk::Failure
  // when MPI does not say whose error it is.
  int poll() {
    for (MPI_Datatype& type : finished_types_) runtime_.library().Type_free(&type);
    finished_types_.clear();
    if (requests_.empty()) return 0;
    const auto count = static_cast<int>(requests_.size());
    if (indices_.size() < requests_.size()) {
      indices_.resize(requests_.size());
      statuses_.resize(requests_.size());
    }
    int done = 0;
    const int code = runtime_.library().Testsome(count, requests_.data(), &done, indices_.data(), statuses_.data());
    if (code != MPI_ERR_IN_STATUS) check(runtime_.library(), code, "testing what is under way");
    if (done == MPI_UNDEFINED || done <= 0) return 0;
    for (int i = 0; i < done; ++i) {
      const auto at = static_cast<std::size_t>(i);
      complete(static_cast<std::size_t>(indices_[at]),
               code == MPI_ERR_IN_STATUS ? statuses_[at].MPI_ERROR : static_cast<int>(MPI_SUCCESS));
    }
    remove_completed();
    return done;
  }

  // The caller will not ask for it again: forgotten now, or as soon as MPI is through.
  void orphan(Operation* operation) {
    if (operation->in_flight == 0) return give_back(operation);
    operation->is_orphan = true;
    operation->is_matched = true;
  }

  bool is_empty() const { return requests_.empty(); }
  // A pending operation, orphans included, reads or writes a part of the range.
  bool touches(const void* base, std::size_t bytes) const {
    return std::any_of(owners_.begin(), owners_.end(),
                       [&](const Operation* operation) { return operation->touches(base, bytes); });
  }

 private:
  void complete(std::size_t index, int code) {
    Operation* operation = owners_[index];
    --operation->in_flight;
    if (code != MPI_SUCCESS && code != MPI_ERR_PENDING) fail(operation, code);
    if (operation->is_orphan && operation->in_flight == 0) give_back(operation);
  }
  // MPI has made them null.
  void remove_completed() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == runtime_.library().request_null) continue;
      requests_[kept] = requests_[i];
      owners_[kept++] = owners_[i];
    }
    requests_.resize(kept);
    owners_.resize(kept);
  }
  void fail(Operation* operation, int code) const {
    operation->fail(failure_of(runtime_.library(), code, operation->peer >= 0 ? "a message" : "a collective"));
    operation->is_matched = true;
  }

  Runtime& runtime_;
  sdk::RequestPool<Operation> pool_;
  std::vector<MPI_Request> requests_;
  std::vector<Operation*> owners_;            // of requests_
  std::vector<MPI_Datatype> finished_types_;  // to be freed with a Turn
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
