// What JAX's collectives are lowered to: a call is a group of operations, described by attributes. On a CPU the handler
// waits a moment for a small one, and returns with a future otherwise, which the engine's thread for continuations
// completes. On a GPU it returns when all lies on streams, and XLA's stream waits there for the results.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/c/roda.h"
#include "bindings/jax/ffi.h"

namespace roda::jax {
namespace {

// The version of XLA's interface, which XLA compares with its own. Older XLAs want their own version, so Python reads
// it from jaxlib.
int api_major = 0;
int api_minor = 1;

// As what the engine takes elements: those that it doesn't know travel as others of their size. Python refuses to
// reduce these.
int dtype_of(DataType type) {
  switch (type) {
    case kPred:
      return RODA_BOOL;
    case kS8:
      return RODA_INT8;
    case kS16:
      return RODA_INT16;
    case kS32:
    case kU32:
      return RODA_INT32;
    case kS64:
    case kU64:
    case kC64:
      return RODA_INT64;
    case kU8:
      return RODA_UINT8;
    case kU16:
      return RODA_UINT16;
    case kF16:
      return RODA_FLOAT16;
    case kF32:
      return RODA_FLOAT32;
    case kF64:
      return RODA_FLOAT64;
    case kBF16:
      return RODA_BFLOAT16;
    case kF8E5M2:
      return RODA_FLOAT8_E5M2;
    case kF8E4M3FN:
      return RODA_FLOAT8_E4M3FN;
  }
  return -1;
}

// A small call is waited for so long: another thread's completion, with what XLA makes of it, takes longer than a small
// collective of ranks that are all there. No longer: other programs may need the thread.
constexpr std::int64_t kPatienceUs = 50;
constexpr std::size_t kMostBytesWaitedFor = 16 * 1024;

// absl::StatusCode
constexpr int kUnknown = 2, kInvalidArgument = 3, kResourceExhausted = 8, kFailedPrecondition = 9, kAborted = 10;

int code_of(int code) {
  switch (code) {
    case RODA_ERR_INVALID:
      return kInvalidArgument;
    case RODA_ERR_PRECONDITION:
      return kFailedPrecondition;
    case RODA_ERR_NO_MEMORY:
      return kResourceExhausted;
    case RODA_ERR_ABORTED:
    case RODA_ERR_PEER:
    case RODA_ERR_TIMEOUT:
      return kAborted;
    default:
      return kUnknown;
  }
}

Failure* fail(const Api* api, int code, const char* message) {
  FailureArgs args{sizeof args, nullptr, message, code};
  return api->create_failure(&args);
}

// Where the arrays of a call lie, and the stream that it is a part of.
struct Place {
  std::int32_t device = -1;
  void* stream = nullptr;
  bool is_host() const { return device < 0; }
};

roda_error no_error() {
  roda_error error{};
  error.struct_size = sizeof error;
  return error;
}

// Python gives all attributes in every call.
class Reader {
 public:
  explicit Reader(const Attributes& attributes) : attributes_(attributes) {}

  std::int32_t number(std::string_view name) const {
    const auto* scalar = find<Scalar>(name, kScalarAttribute);
    return scalar == nullptr ? 0 : static_cast<std::int32_t>(*static_cast<const std::int64_t*>(scalar->value));
  }
  double factor(std::string_view name) const {
    const auto* scalar = find<Scalar>(name, kScalarAttribute);
    return scalar == nullptr ? 1.0 : *static_cast<const double*>(scalar->value);
  }
  std::string text(std::string_view name) const {
    const auto* text = find<Text>(name, kTextAttribute);
    return text == nullptr ? std::string() : std::string(text->data, text->length);
  }

 private:
  template <class Value>
  const Value* find(std::string_view name, int type) const {
    for (std::int64_t i = 0; i < attributes_.size; ++i) {
      const Text& found = *attributes_.names[i];
      if (std::string_view(found.data, found.length) != name || attributes_.types[i] != type) continue;
      return static_cast<const Value*>(attributes_.values[i]);
    }
    return nullptr;
  }

  const Attributes& attributes_;
};

// One call, from its start to its end. XLA uses its own structs again as soon as the handler has returned.
struct Run {
  // An output of whose shape negotiation has the last word.
  struct Output {
    const Run* run = nullptr;
    void* data = nullptr;
    std::vector<std::int64_t> shape;  // of the program
    void* instead = nullptr;          // where the ranks' is another one
    std::size_t bytes = 0;            // of that
    std::string found;                // which
  };

  Run(const Api* api_of_call, Context* context_of_call, const Place& where)
      : api(api_of_call), context(context_of_call), place(where) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() {
    for (const Output& output : outputs) give_back(output);
  }

  void* take(std::size_t bytes) const {
    if (place.is_host()) return std::malloc(bytes);
    MemoryArgs args{sizeof args, nullptr, context, bytes, 1, nullptr};
    return drop(api->allocate(&args)) ? nullptr : args.data;
  }
  void give_back(const Output& output) const {
    if (output.instead == nullptr || place.is_host()) return std::free(output.instead);
    FreeArgs args{sizeof args, nullptr, context, output.bytes, output.instead};
    drop(api->free(&args));
  }
  // Whether there was something to drop.
  bool drop(Failure* failure) const {
    if (failure == nullptr) return false;
    DestroyArgs args{sizeof args, nullptr, failure};
    api->destroy_failure(&args);
    return true;
  }

  const Api* const api;
  Context* const context;  // which ends with the handler
  const Place place;
  Future* future = nullptr;
  std::string name;
  std::vector<Output> outputs;
};

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + ")";
}

// roda_op's way to memory. XLA has laid out the program, so there is none for another shape than the program's: a
// buffer of this call's takes its place, and the call fails when it ends.
void* allocate(void* context, const std::int64_t* shape, std::int32_t ndim, std::uint64_t bytes) {
  static std::byte nothing[1];
  auto* output = static_cast<Run::Output*>(context);
  std::vector<std::int64_t> found(shape, shape + ndim);
  if (found == output->shape) return bytes == 0 ? nothing : output->data;
  output->found = text_of(found);
  output->bytes = std::max<std::size_t>(bytes, 1);
  return output->instead = output->run->take(output->bytes);
}

std::size_t bytes_of(const Buffer& buffer) {
  std::size_t bytes = roda_dtype_size(dtype_of(buffer.dtype));
  for (std::int64_t i = 0; i < buffer.rank; ++i) bytes *= static_cast<std::size_t>(buffer.dims[i]);
  return bytes;
}

// Passes an array through a barrier: its output is its input.
void copy(const Buffer& from, const Buffer& to) {
  const std::size_t bytes = bytes_of(from);
  if (bytes != 0 && from.data != to.data) std::memcpy(to.data, from.data, bytes);
}

// What is wrong with a call that the engine is done with, or null.
Failure* failure_of(const Run& run, roda_handle handle) {
  roda_error error = no_error();
  void* const stream = run.place.stream;
  const std::int32_t code = stream == nullptr ? roda_wait(handle, &error) : roda_wait_on_stream(handle, stream, &error);
  if (code != RODA_OK) return fail(run.api, code_of(error.code), error.message);
  for (const Run::Output& output : run.outputs) {
    if (output.found.empty()) continue;
    const std::string text =
        run.name + " gives " + output.found + ", and the program was traced for " + text_of(output.shape) +
        ": where ranks have different numbers of rows, tell all of them while tracing (the argument "
        "rows of allgather, received_splits of alltoall), or call it outside of jit.";
    return fail(run.api, kInvalidArgument, text.c_str());
  }
  return nullptr;
}

// roda_then's call.
void finish(void* context, roda_handle handle) {
  const std::unique_ptr<Run> run(static_cast<Run*>(context));
  if (Failure* failure = failure_of(*run, handle); failure != nullptr) {
    FutureFailedArgs args{sizeof args, nullptr, run->future, failure};
    run->api->future_has_failed(&args);
  } else {
    FutureDoneArgs args{sizeof args, nullptr, run->future};
    run->api->future_is_done(&args);
  }
}

// The operations of one call, with what they point at.
struct Submission {
  std::vector<roda_op> ops;
  std::vector<std::string> names;
  std::vector<std::int32_t> splits;
  std::size_t bytes = 0;
};

std::vector<std::int32_t> numbers_of(const std::string& text) {
  std::vector<std::int32_t> numbers;
  for (const char* at = text.c_str(); *at != '\0';) {
    char* end = nullptr;
    numbers.push_back(static_cast<std::int32_t>(std::strtol(at, &end, 10)));
    at = *end == '\0' ? end : end + 1;
  }
  return numbers;
}

Submission describe(const Call& call, Run* run) {
  const Reader attributes(call.attributes);
  const auto count = static_cast<std::size_t>(call.inputs.size);
  Submission submission{std::vector<roda_op>(count), std::vector<std::string>(count),
                        numbers_of(attributes.text("splits")), 0};
  run->name = attributes.text("name");
  run->outputs.resize(count);
  roda_op common{};
  common.struct_size = sizeof common;
  common.collective = attributes.number("collective");
  common.device = run->place.device;
  common.stream = run->place.stream;
  if (!run->place.is_host()) common.flags = RODA_OP_IN_STREAM_ORDER;
  common.op = attributes.number("op");
  common.root = attributes.number("root");
  common.process_set = attributes.number("process_set");
  common.prescale = attributes.factor("prescale");
  common.postscale = attributes.factor("postscale");
  common.wire_format = attributes.number("wire_format");
  common.num_splits = static_cast<std::int32_t>(submission.splits.size());
  common.splits = submission.splits.empty() ? nullptr : submission.splits.data();
  for (std::size_t i = 0; i < count; ++i) {
    const Buffer& input = *call.inputs.buffers[i];
    const Buffer& output = *call.outputs.buffers[i];
    roda_op& op = submission.ops[i] = common;
    submission.names[i] =
        count == 1 ? run->name : run->name + "_" + std::to_string(i + 1) + "of" + std::to_string(count);
    op.name = submission.names[i].c_str();
    op.dtype = dtype_of(input.dtype);
    op.ndim = static_cast<std::int32_t>(input.rank);
    op.shape = input.dims;
    op.input = input.data;
    submission.bytes += bytes_of(input);
    if (op.collective == RODA_ALLREDUCE || op.collective == RODA_BROADCAST || op.collective == RODA_REDUCE) {
      op.output = output.data;  // of a reduce off the root: its input, which Python has XLA put there
    } else if (op.collective == RODA_BARRIER) {
      copy(input, output);
    } else {
      run->outputs[i] = {run, output.data, {output.dims, output.dims + output.rank}, nullptr, 0, {}};
      op.allocate = &allocate;
      op.allocate_context = &run->outputs[i];
    }
  }
  if (common.collective == RODA_BARRIER) submission.ops.resize(1);
  return submission;
}

// Whether a runtime is new enough to have the last function that it is asked for.
#define HAS(api, function) ((api).struct_size >= offsetof(Api, function) + sizeof(Api::function))

// Runtimes from before there were futures wait.
bool has_futures(const Api& api) { return HAS(api, future_has_failed); }

Failure* end_here(const Run& run, roda_handle handle) {
  Failure* failure = failure_of(run, handle);
  roda_release(handle);
  return failure;
}

Failure* execute(Call* call, const Place& place) {
  auto run = std::make_unique<Run>(call->api, call->context, place);
  Submission submission = describe(*call, run.get());
  const bool is_small = submission.bytes <= kMostBytesWaitedFor;
  if (is_small || !place.is_host()) submission.ops[0].flags |= RODA_OP_WILL_WAIT;
  roda_error error = no_error();
  roda_handle handle = 0;
  if (roda_submit(submission.ops.data(), static_cast<std::int32_t>(submission.ops.size()), &handle, &error) !=
      RODA_OK) {
    return fail(run->api, code_of(error.code), error.message);
  }
  if (!place.is_host() || !has_futures(*call->api)) return end_here(*run, handle);
  if (is_small && roda_wait_for(handle, kPatienceUs, nullptr) != RODA_AGAIN) return end_here(*run, handle);
  FutureCreateArgs created{sizeof created, nullptr, nullptr};
  if (Failure* failure = call->api->create_future(&created); failure != nullptr) {
    roda_wait(handle, nullptr);  // the buffers are the engine's until then
    roda_release(handle);
    return failure;
  }
  call->future = run->future = created.future;
  // No error: the handle is known.
  roda_then(handle, &finish, run.release(), &error);
  return nullptr;
}

// Whether XLA asks for the version, and no more.
bool tells_version(const Call& call) {
  for (Extension* extension = call.extensions; extension != nullptr; extension = extension->next) {
    if (extension->type != kMetadataExtension) continue;
    Version& version = reinterpret_cast<MetadataExtension*>(extension)->metadata->version;
    version.major = api_major;
    version.minor = api_minor;
    return true;
  }
  return false;
}

Failure* find_place(const Call& call, Place* place) {
  if (!HAS(*call.api, device_of)) {
    return fail(call.api, kFailedPrecondition,
                "Collectives in functions that are compiled for GPUs need a newer jaxlib.");
  }
  StreamArgs stream{sizeof stream, nullptr, call.context, nullptr};
  if (Failure* failure = call.api->stream_of(&stream); failure != nullptr) return failure;
  OrdinalArgs ordinal{sizeof ordinal, nullptr, call.context, -1};
  if (Failure* failure = call.api->device_of(&ordinal); failure != nullptr) return failure;
  *place = {ordinal.device, stream.stream};
  return nullptr;
}

}  // namespace
}  // namespace roda::jax

// XLA's handlers, for CPUs and for GPUs of CUDA; to be registered after roda_jax_use_api.
extern "C" RODA_API roda::jax::Failure* roda_jax_collective(roda::jax::Call* call) {
  return roda::jax::tells_version(*call) ? nullptr : roda::jax::execute(call, {});
}

extern "C" RODA_API roda::jax::Failure* roda_jax_collective_cuda(roda::jax::Call* call) {
  if (roda::jax::tells_version(*call)) return nullptr;
  roda::jax::Place place;
  roda::jax::Failure* failure = roda::jax::find_place(*call, &place);
  return failure != nullptr ? failure : roda::jax::execute(call, place);
}

// Tells the version of XLA's interface that is in the process.
extern "C" RODA_API void roda_jax_use_api(int major, int minor) {
  roda::jax::api_major = major;
  roda::jax::api_minor = minor;
}
