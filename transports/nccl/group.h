// One group over NCCL: forming its communicator, collectives on it, and the end of all that.
#pragma once

#include <roda/sdk/exchange.hpp>
#include <roda/sdk/group_state.hpp>
#include <roda/sdk/request_pool.hpp>

#include <memory>
#include <vector>

#include "plugins/base/mutex.h"
#include "transports/nccl/collectives.h"
#include "transports/nccl/communicator.h"
#include "transports/nccl/context.h"
#include "transports/nccl/library.h"

namespace roda::nccl {

// What NCCL is told of the memory that collectives work on: nothing; buffers, by each rank for itself; or windows, by
// all ranks together, into which the peers' kernels read and write.
enum class Registering : std::int32_t { kNothing, kBuffers, kWindows };

// What the members of a group tell each other before they form a communicator, and what must agree.
//
// One member's, exchanged as bytes: fixed size, no pointers.
struct Card {
  static constexpr std::uint32_t kLayout = 4;
  std::uint32_t layout = kLayout;
  std::int32_t failure_code = 0;  // why this rank can't take part; 0: it can
  char failure[400] = {};
  std::int32_t version = 0;  // of NCCL
  std::int32_t device = -1;
  Registering registers = Registering::kNothing;  // what its NCCL has, and may do
  std::int32_t shares = 0;                        // it may share its GPU
  cuda::Uuid gpu{};
  char host[64] = {};
  char path[128] = {};  // of NCCL
  UniqueId id{};        // group rank 0's
};

// Throws sdk::Failure, the same on every rank, when a member can't take part, when their NCCL differ, or when two use
// one GPU. `world_ranks` are for the text.
void check_cards(const std::vector<Card>& cards, const std::vector<std::int32_t>& world_ranks);

// The entries are those of roda/sdk/transport.hpp. abort() from any thread, the others from the context's caller.
//
// The group lives on one GPU: the one that the description names, else that of the thread's current CUDA context, else
// the one with the process's local rank. A failure of one rank while forming is told to all.
class Group {
 public:
  using Request = roda::nccl::Request;

  Group(Context& context, const roda_group_desc& desc);
  ~Group();

  bool test();
  void abort(const sdk::Failure& cause);

  int32_t start(const roda_collective_args& args, Request** request);
  int32_t test(Request* request);
  // What the caller puts on the request's stream next comes after it.
  bool is_on_stream(Request* request);
  bool is_quiet(const void* base, std::size_t bytes);

  // Memory of the group's GPU, for as long as it stays registered; NCCL is told before the next collective. Refused
  // where a member's NCCL is older than 2.19 or can't do it.
  void memory_register(roda_memory* memory);
  void memory_deregister(roda_memory* memory);
  // Memory of the group's GPU as NCCL wants it, which it is told of before the next collective. All ranks take theirs
  // for the same collectives, of the same sizes, and give none back before their last one: where NCCL maps a window
  // follows from those that came and went before. Refused as registering is.
  void memory_alloc(std::size_t bytes, roda_memory* memory);
  void memory_free(roda_memory* memory);

  // For the context: gives the request to NCCL if it can be now. True when it needs no turn any more.
  bool hand_over(Request* request);
  // For the context: looks for errors while something is under way; how many were found.
  int watch();

 private:
  enum class Step { kCards, kConnect, kTrial, kVerdicts };
  struct Registered {
    void* address;
    std::size_t bytes;
    bool is_window;
    bool is_done = false;    // NCCL knows it
    void* handle = nullptr;  // NCCL's
  };
  using RegisteredPtr = std::shared_ptr<Registered>;
  // Memory to try it with, and what NCCL registered of it.
  struct Trial {
    void* memory = nullptr;
    Registering found = Registering::kNothing;
  };

  // What `body` returns; false when it failed, which ends the group.
  template <typename Body>
  bool go_on(Body&& body) {
    try {
      return body();
    } catch (const sdk::Failure& failure) {
      abort(failure);
      return false;
    }
  }

  Card make_card(const roda_group_desc& desc);
  int choose_device(const roda_group_desc& desc);
  void read_cards();
  bool step_on();
  void prepare_trial();
  void begin_trial();
  void free_trial();
  void end_trial();
  void read_verdicts();
  void check_registers() const;
  bool register_buffers();
  void deregister(const RegisteredPtr& buffer);
  bool wait_for_calls();
  bool can_deregister();
  sdk::Failure late() const;
  void check_place(const Request& request) const;
  void begin(Request* request);
  bool finish_launch(Request* request);
  bool is_over(Request* request);
  void check_progress(Request* request);
  void give_back_events(Request* request);
  void release(Request* request);
  std::string describe(const Request& request) const { return request.name() + " over " + state_.label(); }

  Context& context_;
  sdk::GroupState state_;

  Step step_ = Step::kCards;
  sdk::Allgather gather_;
  sdk::Allgather verdicts_;                        // what each member found in its trial
  const std::shared_ptr<Trial> trial_;             // NCCL writes into it, as into the buffers
  Registering registers_ = Registering::kNothing;  // what all members can
  std::vector<RegisteredPtr> buffers_;
  Gpu* gpu_ = nullptr;
  cuda::Stream stream_ = nullptr;  // for collectives that name none

  // The last collective that lies on a stream, and is not over: the next one comes after it, whatever its stream. NCCL
  // asks for one order of a communicator's operations on all ranks, and streams by themselves keep none.
  const Request* tail_ = nullptr;

  Mutex communicator_guard_;  // of the pointer, against abort()
  std::unique_ptr<Communicator> communicator_;
  sdk::RequestPool<Request> pool_;
  std::vector<Request*> live_;    // started, and not yet told to be over
  std::vector<Request*> ghosts_;  // told to have failed, while the GPU may still use their memory
};

}  // namespace roda::nccl
