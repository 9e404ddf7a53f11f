// A communicator of the NCCL double: its forming, its operations on streams, its end.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

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
  bool is_blocking = false;
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
  std::thread former, launcher;
};

}  // namespace roda::nccl

namespace roda::nccl_double {

// As roda_nccl_double_collectives.
struct Traffic {
  std::atomic<unsigned long long> called{0}, started{0}, started_bytes{0};
};
Traffic& traffic();

// What the variable says if it is meant for the rank, see double.h; else null.
const char* setting(const char* name, int rank);

// Null without a current CUDA context.
nccl::CommObject* make(int size, const nccl::UniqueId& id, int rank);
// Until it is formed, has failed or is given up; leaves that in its state.
void form(nccl::CommObject* comm);
nccl::Result put_on_stream(nccl::CommObject* comm, std::unique_ptr<Work> work, nccl::Stream stream);
// What is on streams ends first.
nccl::Result destroy(nccl::CommObject* comm);

}  // namespace roda::nccl_double
