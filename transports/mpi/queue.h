// The MPI requests of a context that are under way, tested together.
#pragma once

#include <roda/sdk/request_pool.hpp>

#include <vector>

#include "transports/mpi/operation.h"
#include "transports/mpi/runtime.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

// One thread at a time, that of the context; what calls MPI is called with a Turn.
class Queue {
 public:
  explicit Queue(Runtime& runtime) : runtime_(runtime) {}

  Operation* take() { return pool_.take(); }
  void give_back(Operation* operation);

  // `request` counts as in flight for the operation until it is complete.
  void add(MPI_Request request, Operation* operation) {
    requests_.push_back(request);
    owners_.push_back(operation);
    ++operation->in_flight;
  }
  // Room for `count` more, so that add() does not fail once MPI has the request.
  void reserve(std::size_t count);

  // Tests all; returns how many completed. An operation with an error is failed with MPI's text. Throws sdk::Failure
  // when MPI does not say whose error it is.
  int poll();

  // The caller will not ask for it again: forgotten now, or as soon as MPI is through.
  void orphan(Operation* operation);

  bool is_empty() const { return requests_.empty(); }
  // A pending operation, orphans included, reads or writes a part of the range.
  bool touches(const void* base, std::size_t bytes) const;

 private:
  void complete(std::size_t index, int code);
  void remove_completed();
  void fail(Operation* operation, int code) const;

  Runtime& runtime_;
  sdk::RequestPool<Operation> pool_;
  std::vector<MPI_Request> requests_;
  std::vector<Operation*> owners_;            // of requests_
  std::vector<MPI_Datatype> finished_types_;  // to be freed with a Turn
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
