#include "transports/mpi/collectives.h"

#include <atomic>
#include <iterator>
#include <numeric>
#include <utility>

#include "transports/mpi/datatypes.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {
namespace {

std::atomic<const roda_host*> kernels{nullptr};  // MPI gives an operation no state of its own

template <int kDtype, int kOp>
void reduce(void* in, void* inout, int* count, MPI_Datatype*) {
  const roda_host* host = kernels.load(std::memory_order_relaxed);
  host->reduce(host->self, inout, in, inout, static_cast<std::size_t>(*count), kDtype, kOp);
}

// By dtype and op; the table of what MPI has no arithmetic for.
struct Custom {
  int dtype;
  int op;
  MPI_User_function* function;
  MPI_Op made;
  bool is_made;
};

#define RODA_MPI_OPS(dtype)                                                                                       \
  {dtype, RODA_SUM, &reduce<dtype, RODA_SUM>, {}, false}, {dtype, RODA_MIN, &reduce<dtype, RODA_MIN>, {}, false}, \
      {dtype, RODA_MAX, &reduce<dtype, RODA_MAX>, {}, false}, {                                                   \
    dtype, RODA_PRODUCT, &reduce<dtype, RODA_PRODUCT>, {}, false                                                  \
  }
Custom customs[] = {RODA_MPI_OPS(RODA_FLOAT16), RODA_MPI_OPS(RODA_BFLOAT16), RODA_MPI_OPS(RODA_BOOL)};
#undef RODA_MPI_OPS

// MPI types by number of dtype: of its width, and its arithmetic type where MPI has one. 16-bit floats and bool travel
// as integers.
constexpr MPI_Datatype Library::*kTypes[] = {
    &Library::uint8,  &Library::int8,   &Library::uint16,  &Library::int16,   &Library::int32,
    &Library::int64,  &Library::uint16, &Library::float32, &Library::float64, &Library::uint8,
    &Library::uint16, &Library::uint8,  &Library::uint8,
};
static_assert(std::size(kTypes) == RODA_DTYPE_COUNT, "a dtype of the table has no MPI type here");

// A barrier's dtype may be any number.
MPI_Datatype datatype_of(const Library& library, int dtype) {
  return library.*kTypes[dtype >= 0 && dtype < RODA_DTYPE_COUNT ? dtype : RODA_UINT8];
}

// The operation to use with datatype_of(dtype): MPI's own, or for 16-bit floats and bool one that runs the host's
// kernels, made at the first use and kept for the life of the process. One thread at a time, MPI started.
MPI_Op operation_of(const Library& library, const roda_host* host, int dtype, int op) {
  for (Custom& custom : customs) {
    if (custom.dtype != dtype || custom.op != op) continue;
    kernels.store(host, std::memory_order_relaxed);
    if (!custom.is_made) {
      check(library, library.Op_create(custom.function, 1, &custom.made), "MPI_Op_create");
      custom.is_made = true;
    }
    return custom.made;
  }
  if (op == RODA_MIN) return library.min;
  if (op == RODA_MAX) return library.max;
  return op == RODA_PRODUCT ? library.prod : library.sum;
}

// `counts` as MPI wants them; together they fit an int.
void narrow(const std::size_t* counts, int size, std::vector<int>* narrow_counts, std::vector<int>* offsets) {
  narrow_counts->assign(counts, counts + size);
  offsets->resize(static_cast<std::size_t>(size));
  std::exclusive_scan(narrow_counts->begin(), narrow_counts->end(), offsets->begin(), 0);
}

// One start.
class Start {
 public:
  Start(const Library& library, const roda_host* host, const Team& team, const roda_collective_args& args, Queue* queue,
        Operation* operation)
      : mpi_(library),
        host_(host),
        team_(team),
        args_(args),
        queue_(*queue),
        operation_(*operation),
        width_(roda_dtype_size(args.dtype)),
        type_(datatype_of(library, args.dtype)) {}

  void operator()() {
    const auto [input, output] = sdk::elements_of(args_, team_.rank, team_.size);
    // A broadcast's input is copied here and now.
    operation_.touched[0] = {args_.input, args_.collective == RODA_BROADCAST ? 0 : input * width_};
    operation_.touched[1] = {args_.output, output * width_};
    switch (args_.collective) {
      case RODA_ALLREDUCE:
        return allreduce();
      case RODA_REDUCESCATTER:
        return reduce_scatter();
      case RODA_BROADCAST:
        return broadcast();
      case RODA_REDUCE:
        return reduce(args_.root, 0, args_.count);
      case RODA_ALLGATHER:
        return allgather();
      case RODA_ALLTOALL:
        return alltoall();
      default:
        return begin("MPI_Ibarrier", [&](MPI_Request* request) { return mpi_.Ibarrier(team_.communicator, request); });
    }
  }

 private:
  template <typename Call>
  void begin(const char* what, Call&& call) {
    queue_.reserve(1);
    MPI_Request request = mpi_.request_null;
    check(mpi_, call(&request), what);
    queue_.add(request, &operation_);
  }

  const char* input(std::size_t offset) const { return static_cast<const char*>(args_.input) + offset * width_; }
  char* output(std::size_t offset) const { return static_cast<char*>(args_.output) + offset * width_; }
  bool is_in_place() const { return args_.input == args_.output; }
  MPI_Op reduction() const { return operation_of(mpi_, host_, args_.dtype, args_.op); }

  void allreduce() {
    const MPI_Op op = reduction();
    for_each_piece(args_.count, [&](std::size_t offset, int count) {
      const void* from = is_in_place() ? MPI_IN_PLACE : input(offset);
      begin("MPI_Iallreduce", [&](MPI_Request* request) {
        return mpi_.Iallreduce(from, output(offset), count, type_, op, team_.communicator, request);
      });
    });
  }

  void broadcast() {
    const bool copies = team_.rank == args_.root && args_.input != nullptr && !is_in_place();
    if (copies) host_->copy(host_->self, args_.output, args_.input, args_.count * width_);
    for_each_piece(args_.count, [&](std::size_t offset, int count) {
      begin("MPI_Ibcast", [&](MPI_Request* request) {
        return mpi_.Ibcast(output(offset), count, type_, args_.root, team_.communicator, request);
      });
    });
  }

  // `count` elements of every rank's input, `first` and on, become the beginning of the root's output.
  void reduce(int root, std::size_t first, std::size_t count) {
    const bool is_root = team_.rank == root;
    const MPI_Op op = reduction();
    for_each_piece(count, [&](std::size_t offset, int length) {
      const void* from = is_root && is_in_place() ? MPI_IN_PLACE : input(first + offset);
      begin("MPI_Ireduce", [&](MPI_Request* request) {
        return mpi_.Ireduce(from, is_root ? output(offset) : nullptr, length, type_, op, root, team_.communicator,
                            request);
      });
    });
  }

  void reduce_scatter() {
    const std::size_t total = sdk::sum(args_.recv_counts, team_.size);
    if (total > largest_count()) return reduce_parts();
    narrow(args_.recv_counts, team_.size, &operation_.receive_counts, &operation_.receive_offsets);
    begin("MPI_Ireduce_scatter", [&](MPI_Request* request) {
      return mpi_.Ireduce_scatter(is_in_place() ? MPI_IN_PLACE : args_.input, args_.output,
                                  operation_.receive_counts.data(), type_, reduction(), team_.communicator, request);
    });
  }

  // Its counts are ints that must add up to one: beyond that, one reduction for each rank's part.
  void reduce_parts() {
    if (is_in_place()) throw sdk::Failure(RODA_ERR_UNSUPPORTED, "mpi: no reduce-scatter of this size in place");
    std::size_t first = 0;
    for (int root = 0; root < team_.size; ++root) {
      reduce(root, first, args_.recv_counts[root]);
      first += args_.recv_counts[root];
    }
  }

  void allgather() {
    const std::size_t total = sdk::sum(args_.recv_counts, team_.size), own = args_.recv_counts[team_.rank];
    const std::size_t first = sdk::sum(args_.recv_counts, team_.rank);
    const bool in_place = args_.input == output(first);
    if (total > largest_count()) {
      if (in_place) throw sdk::Failure(RODA_ERR_UNSUPPORTED, "mpi: no allgather of this size in place");
      const std::vector<std::size_t> from(peers(), 0), counts(peers(), own), to = offsets_of(args_.recv_counts);
      return exchange(from.data(), counts.data(), to.data());
    }
    narrow(args_.recv_counts, team_.size, &operation_.receive_counts, &operation_.receive_offsets);
    begin("MPI_Iallgatherv", [&](MPI_Request* request) {
      return mpi_.Iallgatherv(in_place ? MPI_IN_PLACE : args_.input, static_cast<int>(own), type_, args_.output,
                              operation_.receive_counts.data(), operation_.receive_offsets.data(), type_,
                              team_.communicator, request);
    });
  }

  // The form with one datatype per peer, because a rank whose data exceed the counts must be able to say so alone.
  void alltoall() {
    const std::vector<std::size_t> from = offsets_of(args_.send_counts), to = offsets_of(args_.recv_counts);
    exchange(from.data(), args_.send_counts, to.data());
  }

  std::size_t peers() const { return static_cast<std::size_t>(team_.size); }
  std::vector<std::size_t> offsets_of(const std::size_t* counts) const {
    std::vector<std::size_t> offsets(peers());
    std::exclusive_scan(counts, counts + team_.size, offsets.begin(), std::size_t{0});
    return offsets;
  }

  // Counts and offsets in elements.
  void exchange(const std::size_t* send_offsets, const std::size_t* send_counts, const std::size_t* receive_offsets) {
    const WideTypes wide{mpi_, type_, width_, &operation_.types};
    wide.describe(team_.size, send_offsets, send_counts, &operation_.send_counts, &operation_.send_offsets,
                  &operation_.send_types);
    wide.describe(team_.size, receive_offsets, args_.recv_counts, &operation_.receive_counts,
                  &operation_.receive_offsets, &operation_.receive_types);
    begin("MPI_Ialltoallw", [&](MPI_Request* request) {
      return mpi_.Ialltoallw(args_.input, operation_.send_counts.data(), operation_.send_offsets.data(),
                             operation_.send_types.data(), args_.output, operation_.receive_counts.data(),
                             operation_.receive_offsets.data(), operation_.receive_types.data(), team_.communicator,
                             request);
    });
  }

  const Library& mpi_;
  const roda_host* const host_;
  const Team& team_;
  const roda_collective_args& args_;
  Queue& queue_;
  Operation& operation_;
  const std::size_t width_;
  const MPI_Datatype type_;
};

}  // namespace

void start_collective(const Library& library, const roda_host* host, const Team& team, const roda_collective_args& args,
                      Queue* queue, Operation* operation) {
  Start(library, host, team, args, queue, operation)();
}

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
