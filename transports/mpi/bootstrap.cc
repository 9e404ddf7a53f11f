// A job brought together by MPI itself: rank, size, and a broadcast.
#include <time.h>

#include <climits>

#include "transports/mpi/group.h"
#include "transports/mpi/mpi.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {
namespace {

constexpr int kJobTag = 0x4a;  // on MPI_COMM_WORLD, in MPI's own context for creating communicators
constexpr std::chrono::seconds kTimeout{1};

Launch own_launch() { return find_launch(kFlavour, std::getenv); }

std::string who_must_come() {
  const Launch launch = own_launch();
  const std::string all = "all processes of the MPI job to come to MPI_Init";
  if (!launch.found) return all;
  return all + " (this is rank " + std::to_string(launch.rank) + " of " + std::to_string(launch.size) + " of " +
         launch.by + ", and each has to call init)";
}

}  // namespace

// One thread at a time. Functions that block do so until all members came, at most as long as the options say; they
// throw sdk::Failure.
class Job {
 public:
  Job(const roda_host* host, const roda_job_options& options)
      : runtime_(Runtime::get()), mpi_(runtime_.library()), timeout_(options.timeout_ns) {
    if (!runtime_.is_started()) {
      block([host, &runtime = runtime_] { runtime.start(host); }, who_must_come());
    }
    if (options.has_communicator != 0) {
      duplicate(mpi_.comm_from_fortran(options.communicator));
    } else if (options.num_ranks > 0) {
      select(options.ranks, options.num_ranks);
    } else {
      duplicate(mpi_.comm_world);
    }
    is_whole_ = true;
    mpi_.Comm_set_errhandler(communicator_, mpi_.errors_return);
    check(mpi_, mpi_.Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
    check(mpi_, mpi_.Comm_size(communicator_, &size_), "MPI_Comm_size");
  }
  ~Job() {
    const Runtime::Turn turn(runtime_, kTimeout);
    if (turn && is_whole_) mpi_.Comm_free(&communicator_);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  void broadcast(void* data, std::size_t bytes, int root) {
    if (bytes > INT_MAX) throw sdk::Failure(RODA_ERR_INVALID, "mpi: too long a broadcast");
    const char* first = static_cast<const char*>(data);
    auto copy = std::make_unique<std::vector<char>>(first, first + bytes);
    run("MPI_Ibcast", "a broadcast among the starting processes", &copy, [&](MPI_Request* request) {
      return mpi_.Ibcast(copy->data(), static_cast<int>(bytes), mpi_.byte, root, communicator_, request);
    });
    std::copy(copy->begin(), copy->end(), static_cast<char*>(data));
  }
  // True when every rank said yes.
  bool agree(bool mine) {
    auto answer = std::make_unique<std::int32_t>(mine ? 1 : 0);
    run("MPI_Iallreduce", "the answers of the starting processes", &answer, [&](MPI_Request* request) {
      return mpi_.Iallreduce(MPI_IN_PLACE, answer.get(), 1, mpi_.int32, mpi_.min, communicator_, request);
    });
    return *answer != 0;
  }

 private:
  void duplicate(MPI_Comm parent) {
    if (parent == mpi_.comm_null) {
      throw sdk::Failure(RODA_ERR_INVALID, "mpi: init was given MPI_COMM_NULL: this process is in no communicator");
    }
    auto made = std::make_unique<MPI_Comm>();
    run("MPI_Comm_idup", "every process of the communicator to start", &made,
        [&](MPI_Request* request) { return mpi_.Comm_idup(parent, made.get(), request); });
    communicator_ = *made;
  }
  void select(const std::int32_t* ranks, int count) {
    const std::vector<int> members(ranks, ranks + count);
    for (const int rank : members) {
      const bool is_twice = std::count(members.begin(), members.end(), rank) > 1;
      if (rank >= 0 && rank < runtime_.world_size() && !is_twice) continue;
      throw sdk::Failure(RODA_ERR_INVALID, "mpi: init was given rank " + std::to_string(rank) +
                                               (is_twice ? " twice" : ", but MPI's world has ranks 0 to ") +
                                               (is_twice ? "" : std::to_string(runtime_.world_size() - 1)));
    }
    if (std::find(members.begin(), members.end(), runtime_.world_rank()) == members.end()) {
      throw sdk::Failure(RODA_ERR_INVALID, "mpi: MPI rank " + std::to_string(runtime_.world_rank()) +
                                               " is not among the ranks that init was given: it can't take part");
    }
    const auto made = std::make_shared<MPI_Comm>();
    block([made, members] { *made = make_communicator(members, kJobTag); }, "every listed rank to start");
    communicator_ = *made;
  }
  // Begins what `call` does, which works on `memory`, and waits until it is complete: for `what`.
  template <typename Memory, typename Call>
  void run(const char* name, const char* what, std::unique_ptr<Memory>* memory, Call&& call) {
    MPI_Request request = mpi_.request_null;
    {
      const Runtime::Turn turn(runtime_, kTimeout);
      if (!turn) throw sdk::Failure(RODA_ERR_PRECONDITION, "mpi: MPI was finalised, or another thread holds it");
      check(mpi_, call(&request), name);
    }
    is_whole_ = false;
    const auto is_over = [&] {
      const Runtime::Turn turn(runtime_);
      int done = 0;
      if (turn) check(mpi_, mpi_.Test(&request, &done, MPI_STATUS_IGNORE), what);
      return done != 0;
    };
    try {
      wait_until(is_over, what);
    } catch (const sdk::Failure&) {
      static_cast<void>(memory->release());  // MPI may still write to it, as long as the process lives
      throw;
    }
    is_whole_ = true;
  }
  template <typename Body>
  void block(Body&& body, const std::string& what) const {
    HelperCall<void> job;
    job.start(kJobName, std::forward<Body>(body));
    wait_until([&] { return !job.is_running(); }, what);
    job.take();
  }
  template <typename Test>
  void wait_until(Test&& is_over, const std::string& what) const {
    const Clock::time_point started = Clock::now();
    while (!is_over()) {
      if (timeout_.count() > 0 && Clock::now() - started > timeout_) {
        throw sdk::Failure(RODA_ERR_TIMEOUT,
                           "mpi: waited " +
                               std::to_string(std::chrono::duration_cast<std::chrono::seconds>(timeout_).count()) +
                               " s for " + what + "; if a rank is merely late, raise HOROVOD_GLOO_TIMEOUT_SECONDS");
      }
      const timespec pause{0, 50'000};
      ::nanosleep(&pause, nullptr);
    }
  }

  Runtime& runtime_;
  const Library& mpi_;
  const std::chrono::nanoseconds timeout_;
  MPI_Comm communicator_{};
  bool is_whole_ = false;  // nothing is pending on the communicator
  int rank_ = 0;
  int size_ = 1;
};

namespace {

Job& job_of(roda_job* handle) { return *reinterpret_cast<Job*>(handle); }

int32_t launched_here(const roda_host*) {
  if (own_launch().found) return 1;
  if (!Library::is_loaded()) return 0;
  int started = 0, size = 0;
  try {
    const Library& mpi = Runtime::get().library();
    mpi.Initialized(&started);
    if (started != 0) mpi.Comm_size(mpi.comm_world, &size);
  } catch (const sdk::Failure&) {
    return 0;
  }
  return size > 1 ? 1 : 0;
}

constexpr roda_bootstrap kBootstrap = {
    sizeof(roda_bootstrap),
    RODA_ABI_VERSION,
    "mpi",
    launched_here,
    [](const roda_host* host, const roda_job_options* options, roda_job** job, roda_error* error) -> int32_t {
      *job = nullptr;
      return sdk::done(error, [&] { *job = reinterpret_cast<roda_job*>(new Job(host, *options)); });
    },
    [](roda_job* job) -> int32_t { return job_of(job).rank(); },
    [](roda_job* job) -> int32_t { return job_of(job).size(); },
    [](roda_job* job, void* data, size_t bytes, int32_t root, roda_error* error) -> int32_t {
      return sdk::done(error, [&] { job_of(job).broadcast(data, bytes, root); });
    },
    [](roda_job* job, int32_t mine, int32_t* all, roda_error* error) -> int32_t {
      return sdk::done(error, [&] { *all = job_of(job).agree(mine != 0) ? 1 : 0; });
    },
    [](roda_job* job) { delete &job_of(job); },
    [](const roda_host*, int32_t) { Runtime::get().peer_lost(); },
};

}  // namespace

const roda_bootstrap* bootstrap() { return &kBootstrap; }

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
