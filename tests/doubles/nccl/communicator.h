// A communicator of the NCCL double: its forming, its operations on streams, its end.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "tests/doubles/nccl/board.h"
#include "tests/doubles/nccl/registrations.h"
#include "tests/doubles/nccl/work.h"
#include "transports/nccl/library.h"

namespace roda::nccl {

struct CommObject {
  std::string name;
  int rank = 0;
  int size = 1;
  int device = -1;
  std::atomic<bool> is_busy{false};  // a call is under way
  cuda::Context context = nullptr;
  std::unique_ptr<roda::nccl_double::Board> board;
  std::atomic<Result> state{kInProgress};
  std::string last_error;  // set before state
  std::atomic<bool> is_aborted{false};
  std::atomic<int> hosted{0};  // operations on streams
  int operations = 0;
  const void* number = nullptr;  // what the CUDA double knows it by; no other one gets the same
  std::mutex order;              // operations of one communicator run one after another, whatever their streams
  roda::nccl_double::Registrations registrations;
};

}  // namespace roda::nccl

namespace roda::nccl_double {

// As roda_nccl_double_collectives.
struct Traffic {
  std::atomic<unsigned long long> called{0}, started{0}, started_bytes{0}, all_to_alls{0};
};
Traffic& traffic();

// What has failed last in forming, where nobody has a communicator to ask.
struct LastError {
  std::mutex guard;
  char text[512];  // read without the guard, as the real one's
};
LastError& last_error();

// What the variable says if it is meant for the rank, see double.h; else null.
const char* setting(const char* name, int rank);

// A call, of which a communicator takes one at a time.
class Call {
 public:
  explicit Call(nccl::CommObject* comm) : comm_(comm), is_first_(!comm->is_busy.exchange(true)) {
    if (!is_first_) comm->last_error = "a call was made while another was in progress";
  }
  ~Call() {
    if (is_first_) comm_->is_busy.store(false);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  bool may_go_on() const { return is_first_; }

 private:
  nccl::CommObject* const comm_;
  const bool is_first_;
};

// Null without a current CUDA context.
nccl::CommObject* make(int size, const nccl::UniqueId& id, int rank);
// Until it is formed or has failed; leaves that in its state.
void form(nccl::CommObject* comm);
nccl::Result put_on_stream(nccl::CommObject* comm, std::unique_ptr<Work> work, nccl::Stream stream);
// What is on streams, and a call that is under way, end first.
nccl::Result destroy(nccl::CommObject* comm);

}  // namespace roda::nccl_double
