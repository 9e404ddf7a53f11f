// A job brought together by MPI itself: rank, size, and a broadcast.
#pragma once

#include <roda/abi/bootstrap.h>

#include <memory>

#include "transports/mpi/operation.h"
#include "transports/mpi/runtime.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

// One thread at a time. Functions that block do so until all members came, at most as long as the options say; they
// throw sdk::Failure.
class Job {
 public:
  Job(const roda_host* host, const roda_job_options& options);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  void broadcast(void* data, std::size_t bytes, int root);
  // True when every rank said yes.
  bool agree(bool mine);

 private:
  void duplicate(MPI_Comm parent);
  void select(const std::int32_t* ranks, int count);
  Runtime::Turn take_turn() const;
  // Until the request, which works on `memory`, is complete.
  template <typename Memory>
  void wait(MPI_Request request, const char* what, std::unique_ptr<Memory>* memory);
  template <typename Test>
  void wait_until(Test&& is_over, const char* what) const;

  Runtime& runtime_;
  const Library& mpi_;
  const std::chrono::nanoseconds timeout_;
  MPI_Comm communicator_{};
  bool is_whole_ = false;  // nothing is pending on the communicator
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
