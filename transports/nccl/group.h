// One group over NCCL: forming its communicator, collectives on it, and the end of all that.
#pragma once

#include <roda/sdk/exchange.hpp>
#include <roda/sdk/group_state.hpp>
#include <roda/sdk/request_pool.hpp>

#include <algorithm>
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

inline constexpr std::chrono::milliseconds kQuietPause{1};
inline constexpr std::chrono::microseconds kPause{100};

// The entries are those of roda/sdk/transport.hpp. abort() from any thread, the others from the context's caller.
//
// The group lives on one GPU: the one that the description names, else that of the thread's current CUDA context, else
// the one with the process's local rank. A failure of one rank while forming is told to all.
class Group {
 public:
  using Request = roda::nccl::Request;

  Group(Context& context, const roda_group_desc& desc) : context_(context), state_("nccl", desc) {
    const Card card = make_card(desc);
    gather_ = state_.gather("nccl.card", &card, sizeof card);
    context_.add(this);
  }
  // Memory that an aborted collective still uses may be given back right after this.
  ~Group() {
    state_.abort({RODA_ERR_ABORTED, state_.text("was destroyed")});
    context_.leave(this);
    abandoned_.insert(abandoned_.end(), live_.begin(), live_.end());
    live_.clear();
    if (step_ != Step::kTrial) free_trial();
    if (communicator_ == nullptr) return;
    const auto deadline = Clock::now() + context_.abort_timeout();
    if (!abandoned_.empty()) communicator_->abort();
    while (!abandoned_.empty() && Clock::now() < deadline) {
      std::erase_if(abandoned_, [this](Request* request) { return is_over(request); });
      if (!abandoned_.empty()) std::this_thread::sleep_for(kQuietPause);
    }
    communicator_->retire(context_.abort_timeout());
    context_.end_later(std::move(communicator_));
  }

  bool test() {
    const auto fail = [this](const sdk::Failure& failure) { abort(failure); };
    return state_.form([this] { return step_on(); }, [this] { return late(); }, fail);
  }
  void abort(const sdk::Failure& cause) {
    const MutexLock lock(communicator_guard_);
    state_.abort(cause);
    if (communicator_ != nullptr) communicator_->abort();
  }

  int32_t start(const roda_collective_args& args, Request** request) {
    state_.throw_if_broken();
    if (!Context::collective_supported(args.collective, args.dtype, args.op, args.memory_kind)) {
      throw sdk::no_such_collective("nccl", args);
    }
    Request* started = pool_.take();
    try {
      started->assign(args, state_.size());
      started->measure(state_.rank(), state_.size());
      started->stream = args.stream != nullptr ? static_cast<cuda::Stream>(args.stream) : stream_;
      check_place(*started);
    } catch (...) {
      pool_.give_back(started);
      throw;
    }
    if (started->is_empty()) {
      pool_.give_back(started);
      return RODA_OK;
    }
    live_.push_back(started);
    context_.enqueue(this, started);
    context_.pump();
    *request = started;
    return RODA_OK;
  }
  int32_t test(Request* request) {
    if (request->state != Request::State::kRunning) context_.pump();
    if (!state_.is_broken() && request->state == Request::State::kRunning) check_progress(request);
    if (request->state == Request::State::kOver) {
      release(request);
      return RODA_OK;
    }
    if (!state_.is_broken()) return RODA_IN_PROGRESS;
    std::erase(live_, request);
    abandoned_.push_back(request);
    state_.throw_if_broken();
    return RODA_IN_PROGRESS;
  }
  // What the caller puts on the request's stream next comes after it.
  bool is_on_stream(Request* request) {
    if (request->state == Request::State::kQueued || request->state == Request::State::kLaunching) context_.pump();
    state_.throw_if_broken();
    return request->state == Request::State::kRunning || request->state == Request::State::kOver;
  }
  // NCCL has access to a registered buffer until it has been told otherwise, which it can't while a call is under way.
  bool is_quiet(const void* base, std::size_t bytes) {
    const auto overlaps = [&](const RegisteredPtr& buffer) {
      return buffer->is_done && sdk::overlaps(buffer->address, buffer->bytes, base, bytes);
    };
    if (std::ranges::any_of(buffers_, overlaps) && !can_deregister()) return false;
    std::erase_if(abandoned_, [this](Request* request) { return is_over(request); });
    const auto touches = [&](const Request* request) { return request->touches(base, bytes); };
    return std::ranges::none_of(live_, touches) && std::ranges::none_of(abandoned_, touches);
  }

  // Memory of the group's GPU, for as long as it stays registered; NCCL is told before the next collective. Refused
  // where a member's NCCL is older than 2.19 or can't do it.
  //
  // NCCL wants the buffers of one collective to be registered on every rank or on none. So the members agree, while the
  // group forms, on whether they register at all: each tries it once. From then on a rank that can't register what it
  // is told to must not go on, and ends the group.
  void memory_register(roda_memory* memory) {
    state_.throw_if_broken();
    check_registers();
    if (memory->kind != RODA_MEMORY_CUDA || memory->device != gpu_->device()) {
      throw sdk::Failure(RODA_ERR_INVALID,
                         "nccl: only memory of " + gpu_->label() + " is registered with " + state_.label());
    }
    buffers_.push_back(std::make_shared<Registered>(Registered{memory->address, memory->length, false}));
  }
  // NCCL knows nothing of the buffer when this returns, or the communicator is gone. A call of NCCL's that is under way
  // is waited for; callers that must not wait ask quiesced() before.
  void memory_deregister(roda_memory* memory) {
    const auto is_it = [memory](const RegisteredPtr& buffer) { return buffer->address == memory->address; };
    const auto found = std::ranges::find_if(buffers_, is_it);
    if (found == buffers_.end()) return;
    const RegisteredPtr buffer = *found;
    buffers_.erase(found);
    if (!buffer->is_done) return;
    go_on([&] {
      if (!wait_for_calls()) return true;
      deregister(buffer);
      return wait_for_calls();
    });
    const auto deadline = Clock::now() + context_.abort_timeout();
    while (state_.is_broken() && !communicator_->is_gone() && Clock::now() < deadline)
      std::this_thread::sleep_for(kPause);
  }
  // Memory of the group's GPU as NCCL wants it, which it is told of before the next collective. All ranks take theirs
  // for the same collectives, of the same sizes, and give none back before their last one: where NCCL maps a window
  // follows from those that came and went before. Refused as registering is.
  void memory_alloc(std::size_t bytes, roda_memory* memory) {
    state_.throw_if_broken();
    check_registers();
    const cuda::ContextScope scope(gpu_->driver(), gpu_->context());
    void* address = nullptr;
    const Library& library = *context_.library();
    if (const Result result = library.MemAlloc(&address, bytes); result != kSuccess) {
      const std::string what = "ncclMemAlloc of " + std::to_string(bytes) + " bytes on " + gpu_->label();
      throw sdk::Failure(RODA_ERR_NO_MEMORY, explain(library, gpu_->driver(), nullptr, result, what).what());
    }
    *memory = roda_memory{sizeof(roda_memory), RODA_MEMORY_CUDA, gpu_->device(), 0, address, bytes, address};
    buffers_.push_back(std::make_shared<Registered>(Registered{address, bytes, registers_ == Registering::kWindows}));
  }
  void memory_free(roda_memory* memory) {
    memory_deregister(memory);
    const cuda::ContextScope scope(gpu_->driver(), gpu_->context());
    context_.library()->MemFree(memory->address);
  }

  // For the context: gives the request to NCCL if it can be now. True when it needs no turn any more.
  bool hand_over(Request* request) {
    if (state_.is_broken()) return true;
    const bool is_handed_over = go_on([&] {
      if (!communicator_->poll()) return false;
      if (request->state == Request::State::kQueued) {
        if (!register_buffers()) return false;
        begin(request);
      }
      return finish_launch(request);
    });
    return is_handed_over || state_.is_broken();
  }
  // For the context: looks for errors while something is under way; how many were found.
  int watch() {
    if (live_.empty() || !state_.works()) return 0;
    go_on([this] { return communicator_->poll(); });
    return state_.is_broken() ? 1 : 0;
  }

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
  bool step_on() {
    if (step_ == Step::kCards && gather_.test()) read_cards();
    if (step_ == Step::kConnect && !state_.is_formed() && communicator_->poll()) begin_trial();
    if (step_ == Step::kTrial && communicator_->poll()) end_trial();
    if (step_ == Step::kVerdicts && verdicts_.test()) read_verdicts();
    return state_.is_formed();
  }
  void prepare_trial();
  void begin_trial();
  void end_trial();
  void free_trial();
  void read_verdicts();
  void check_registers() const {
    if (registers_ != Registering::kNothing) return;
    throw sdk::Failure(RODA_ERR_UNSUPPORTED, "nccl: " + state_.label() + " registers no buffers");
  }
  // What is due comes before the next collective: NCCL takes one call at a time. True when all is done.
  bool register_buffers() {
    for (const RegisteredPtr& buffer : buffers_) {
      if (buffer->is_done) continue;
      const std::string what = "registering " + std::to_string(buffer->bytes) + " bytes with " + state_.label();
      communicator_->call(what, [library = context_.library(), buffer](Comm comm) {
        return buffer->is_window
                   ? library->CommWindowRegister(comm, buffer->address, buffer->bytes, &buffer->handle, kSymmetric)
                   : library->CommRegister(comm, buffer->address, buffer->bytes, &buffer->handle);
      });
      buffer->is_done = true;
      if (!communicator_->poll()) return false;
    }
    return true;
  }
  void deregister(const RegisteredPtr& buffer) {
    communicator_->call("giving up memory of " + state_.label(), [library = context_.library(), buffer](Comm comm) {
      return buffer->is_window ? library->CommWindowDeregister(comm, buffer->handle)
                               : library->CommDeregister(comm, buffer->handle);
    });
  }
  // False when the group has failed.
  bool wait_for_calls() {
    const auto deadline = Clock::now() + context_.abort_timeout();
    while (!state_.is_broken()) {
      if (communicator_->poll()) return true;
      if (Clock::now() > deadline)
        throw sdk::Failure(RODA_ERR_TIMEOUT, "nccl: a call of " + state_.label() + " does not end");
      std::this_thread::sleep_for(kPause);
    }
    return false;
  }
  // Whether memory_deregister() would find nothing to wait for.
  bool can_deregister() {
    if (state_.is_broken()) return communicator_ == nullptr || communicator_->is_gone();
    return go_on([this] { return communicator_->poll(); });
  }
  sdk::Failure late() const {
    if (step_ == Step::kConnect || step_ == Step::kTrial) {
      return state_.late({}, "waiting for NCCL to connect the ranks (NCCL_DEBUG=INFO prints how it tries to)");
    }
    const sdk::Allgather& gather = step_ == Step::kCards ? gather_ : verdicts_;
    return state_.late(gather.missing());
  }
  void check_place(const Request& request) const {
    const cuda::Devices& devices = cuda::Devices::get(gpu_->driver());
    const std::pair<const void*, std::size_t> ranges[] = {{request.args.input, request.input_bytes},
                                                          {request.args.output, request.output_bytes}};
    for (const auto& [address, bytes] : ranges) {
      const bool is_read = request.args.collective != RODA_BROADCAST || state_.rank() == request.args.root;
      if (bytes == 0 || (address == request.args.input && !is_read)) continue;
      const int device = devices.device_of(address);
      if (device == gpu_->device()) continue;
      const std::string where = device < 0 ? "in host memory" : "on device " + std::to_string(device);
      throw sdk::Failure(RODA_ERR_INVALID, "nccl: " + describe(request) + ": the tensor lies " + where + ", but " +
                                               state_.label() + " was formed on " + gpu_->label() +
                                               ": keep one GPU per process, torch.cuda.set_device(hvd.local_rank())");
    }
  }
  void begin(Request* request) {
    {
      const cuda::ContextScope scope(gpu_->driver(), gpu_->context());
      check(cuda::check_stream(gpu_->driver(), request->stream, describe(*request)));
    }
    if (tail_ != nullptr && tail_->stream != request->stream) gpu_->hold(request->stream, tail_->end);
    request->begin = gpu_->record(request->stream);
    request->state = Request::State::kLaunching;
    communicator_->call(describe(*request),
                        [library = context_.library(), rank = state_.rank(), size = state_.size(), request](Comm comm) {
                          return Launch{*library, comm, rank, size, *request}();
                        });
  }
  bool finish_launch(Request* request) {
    if (!communicator_->poll()) return false;
    request->end = gpu_->record(request->stream);
    tail_ = request;
    request->state = Request::State::kRunning;
    return true;
  }
  // Whether the memory of a request that failed is out of use. Only an event that is put behind the request now says
  // so, since an abort ends what was on the stream.
  bool is_over(Request* request) {
    if (request->state == Request::State::kQueued || gpu_ == nullptr) request->state = Request::State::kOver;
    if (request->state != Request::State::kOver) {
      try {
        if (request->end == nullptr && communicator_->is_gone()) request->end = gpu_->record(request->stream);
        // A device in an error runs nothing any more.
        if (request->end != nullptr && gpu_->query(request->end) != cuda::kNotReady) {
          request->state = Request::State::kOver;
        }
      } catch (const sdk::Failure&) {
        request->state = Request::State::kOver;  // the same: not even an event could be recorded
      }
    }
    if (request->state != Request::State::kOver) return false;
    give_back_events(request);
    pool_.give_back(request);
    return true;
  }
  // Ends the request when the GPU is through, and the group when the GPU has failed or does not come on.
  void check_progress(Request* request) {
    const cuda::Result result = gpu_->query(request->end);
    if (result == cuda::kSuccess) {
      request->state = Request::State::kOver;
      return;
    }
    if (result != cuda::kNotReady) {
      return abort({RODA_ERR_SYSTEM, "nccl: " + gpu_->driver().explain(result, describe(*request))});
    }
    if (!request->has_begun && gpu_->query(request->begin) == cuda::kSuccess) {
      request->has_begun = true;
      request->began = Clock::now();
    }
    if (!request->has_begun || Clock::now() - request->began < context_.gpu_timeout()) return;
    abort(
        {RODA_ERR_TIMEOUT,
         "nccl: " + describe(*request) + " was not over within " + std::to_string(context_.gpu_timeout().count()) +
             " ms on the GPU: a rank did not take part, or its GPU is busy, for which RODA_GPU_TIMEOUT_SECONDS may be "
             "raised; NCCL_DEBUG=INFO shows connections"});
  }
  void give_back_events(Request* request) {
    if (tail_ == request) tail_ = nullptr;
    for (cuda::Event* event : {&request->begin, &request->end}) {
      if (*event != nullptr) gpu_->give_back(std::exchange(*event, nullptr));
    }
  }
  void release(Request* request) {
    give_back_events(request);
    std::erase(live_, request);
    pool_.give_back(request);
  }
  std::string describe(const Request& request) const { return request.name() + " over " + state_.label(); }

  Context& context_;
  sdk::GroupState state_;

  Step step_ = Step::kCards;
  sdk::Allgather gather_;
  sdk::Allgather verdicts_;                                         // what each member found in its trial
  const std::shared_ptr<Trial> trial_ = std::make_shared<Trial>();  // NCCL writes into it, as into the buffers
  Registering registers_ = Registering::kNothing;                   // what all members can
  std::vector<RegisteredPtr> buffers_;
  Gpu* gpu_ = nullptr;
  cuda::Stream stream_ = nullptr;  // for collectives that name none

  // The last collective that lies on a stream, and is not over: the next one comes after it, whatever its stream. NCCL
  // asks for one order of a communicator's operations on all ranks, and streams by themselves keep none.
  const Request* tail_ = nullptr;

  Mutex communicator_guard_;  // of the pointer, against abort()
  std::unique_ptr<Communicator> communicator_;
  sdk::RequestPool<Request> pool_;
  std::vector<Request*> live_;       // started, and not yet told to be over
  std::vector<Request*> abandoned_;  // told to have failed, while the GPU may still use their memory
};

}  // namespace roda::nccl
