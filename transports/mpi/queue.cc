#include "transports/mpi/queue.h"

#include <algorithm>

namespace roda::mpi::RODA_MPI_FLAVOUR {

void Queue::give_back(Operation* operation) {
  finished_types_.insert(finished_types_.end(), operation->types.begin(), operation->types.end());
  operation->types.clear();
  std::vector<char>().swap(operation->scratch);
  pool_.give_back(operation);
}

void Queue::reserve(std::size_t count) {
  requests_.reserve(requests_.size() + count);
  owners_.reserve(owners_.size() + count);
}

int Queue::poll() {
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

// MPI has made them null.
void Queue::remove_completed() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == runtime_.library().request_null) continue;
    requests_[kept] = requests_[i];
    owners_[kept++] = owners_[i];
  }
  requests_.resize(kept);
  owners_.resize(kept);
}

void Queue::fail(Operation* operation, int code) const {
  try {
    check(runtime_.library(), code, operation->peer >= 0 ? "a message" : "a collective");
  } catch (const sdk::Failure& failure) {
    operation->fail(failure);
    operation->is_matched = true;
  }
}

void Queue::complete(std::size_t index, int code) {
  Operation* operation = owners_[index];
  --operation->in_flight;
  if (code != MPI_SUCCESS && code != MPI_ERR_PENDING) fail(operation, code);
  if (operation->is_orphan && operation->in_flight == 0) give_back(operation);
}

void Queue::orphan(Operation* operation) {
  if (operation->in_flight == 0) return give_back(operation);
  operation->is_orphan = true;
  operation->is_matched = true;
}

bool Queue::touches(const void* base, std::size_t bytes) const {
  return std::any_of(owners_.begin(), owners_.end(),
                     [&](const Operation* operation) { return operation->touches(base, bytes); });
}

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
