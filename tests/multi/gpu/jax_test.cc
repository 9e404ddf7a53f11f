// XLA's handler for GPUs, called as XLA calls it: with arrays on the GPU, a stream that gives them their values, and
// memory of XLA's own.
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bindings/jax/ffi.h"
#include "tests/multi/gpu/gpu_array.h"

extern "C" roda::jax::Failure* roda_jax_collective_cuda(roda::jax::Call* call);

namespace roda::jax {

struct Failure {
  std::string message;
};

// What a call runs in: XLA, as far as the handler asks it for anything.
struct Context {
  const std::vector<char> zeros = std::vector<char>(4096);
  const test::GpuArray spare{zeros.data(), zeros.size()};  // XLA's stream is through with it when the inputs are there
  int taken = 0, given_back = 0;
};

namespace {

Failure* create_failure(FailureArgs* args) { return new Failure{args->message}; }
void destroy_failure(DestroyArgs* args) { delete args->failure; }
Failure* stream_of(StreamArgs* args) {
  args->stream = test::own_stream(test::own_gpu());
  return nullptr;
}
Failure* device_of(OrdinalArgs* args) {
  args->device = test::own_gpu();
  return nullptr;
}
Failure* allocate(MemoryArgs* args) {
  EXPECT_LE(args->bytes, args->context->zeros.size());
  ++args->context->taken;
  args->data = args->context->spare.data();
  return nullptr;
}
Failure* give_back(FreeArgs* args) {
  EXPECT_EQ(args->data, args->context->spare.data());
  ++args->context->given_back;
  return nullptr;
}

// One array, in and out.
class OneCall {
 public:
  OneCall(std::int64_t collective, const char* name, std::int64_t rows, void* in, std::int64_t rows_out, void* out)
      : collective_(collective), name_{name, std::strlen(name)}, rows_(rows), rows_out_(rows_out) {
    in_.data = in;
    out_.data = out;
  }
  OneCall(const OneCall&) = delete;
  OneCall& operator=(const OneCall&) = delete;

  // What it fails with; "": it does not.
  std::string run() {
    const std::unique_ptr<Failure> failure(roda_jax_collective_cuda(&call_));
    return failure == nullptr ? "" : failure->message;
  }
  Context& context() { return context_; }
  Api& api() { return api_; }

 private:
  Api api_{.struct_size = sizeof(Api),
           .extensions = nullptr,
           .version = {},
           .internal = nullptr,
           .create_failure = create_failure,
           .not_used = nullptr,
           .destroy_failure = destroy_failure,
           .nor_used = nullptr,
           .stream_of = stream_of,
           .not_used_either = {},
           .allocate = allocate,
           .free = give_back,
           .of_threads = {},
           .create_future = nullptr,
           .future_is_done = nullptr,
           .future_has_failed = nullptr,
           .of_runs = nullptr,
           .device_of = device_of};
  Context context_;
  std::int64_t collective_, op_ = RODA_SUM;
  Text name_;
  std::int64_t rows_, rows_out_;
  Buffer in_{sizeof(Buffer), nullptr, kF32, nullptr, 1, &rows_},
      out_{sizeof(Buffer), nullptr, kF32, nullptr, 1, &rows_out_};
  Scalar number_{kS64, &collective_}, reduction_{kS64, &op_};
  Text names_[3] = {{"collective", 10}, {"name", 4}, {"op", 2}};
  Text* keys_[3] = {&names_[0], &names_[1], &names_[2]};
  int kinds_[3] = {kScalarAttribute, kTextAttribute, kScalarAttribute};
  void* values_[3] = {&number_, &name_, &reduction_};
  int buffer_kinds_[1] = {};
  Buffer *inputs_[1] = {&in_}, *outputs_[1] = {&out_};
  Call call_{sizeof(Call),
             nullptr,
             &api_,
             &context_,
             0,
             {sizeof(Buffers), nullptr, 1, buffer_kinds_, inputs_},
             {sizeof(Buffers), nullptr, 1, buffer_kinds_, outputs_},
             {sizeof(Attributes), nullptr, 3, kinds_, keys_, values_},
             nullptr};
};

std::vector<float> filled(std::int64_t count, float value) {
  return std::vector<float>(static_cast<std::size_t>(count), value);
}

}  // namespace
}  // namespace roda::jax

namespace roda::test {
namespace {

using jax::filled;
using jax::OneCall;

TEST(GpuJax, ResultsAreThereInTheOrderOfXlasStream) {
  const auto count = std::int64_t{1} << 20;
  for (int round = 0; round < 3; ++round) {
    const GpuArray data = on_gpu(filled(count, 1));
    OneCall call(RODA_ALLREDUCE, "jax", count, data.data(), count, data.data());
    EXPECT_EQ(call.run(), "");
    EXPECT_EQ(data.read<float>(), filled(count, static_cast<float>(size())));
  }
  const GpuArray in = on_gpu(filled(3, static_cast<float>(rank()))), out = on_gpu(filled(3 * size(), -1));
  OneCall gathers(RODA_ALLGATHER, "jax rows", 3, in.data(), 3 * size(), out.data());
  EXPECT_EQ(gathers.run(), "");
  std::vector<float> expected;
  for (int r = 0; r < size(); ++r) expected.insert(expected.end(), 3, static_cast<float>(r));
  EXPECT_EQ(out.read<float>(), expected);
  EXPECT_EQ(gathers.context().taken, 0);
}

// The ranks' rows are more than the program was compiled for: they go to memory of XLA's, which gets that back.
TEST(GpuJax, RowsThatWereNotForeseenAreAnError) {
  if (size() == 1) GTEST_SKIP() << "one rank knows its own";
  const std::int64_t rows = rank() + 1, traced = rows * size();
  const GpuArray in = on_gpu(filled(rows, 1)), out = on_gpu(filled(traced, -1));
  OneCall call(RODA_ALLGATHER, "jax uneven", rows, in.data(), traced, out.data());
  const std::string found = std::to_string(size() * (size() + 1) / 2);
  const bool is_right = std::to_string(traced) == found;  // by chance
  EXPECT_NE(call.run().find(is_right ? "" : "gives (" + found + "), and the program was traced for"),
            std::string::npos);
  EXPECT_EQ(call.context().taken, is_right ? 0 : 1);
  EXPECT_EQ(call.context().given_back, is_right ? 0 : 1);
  wait_for_engine();
}

TEST(GpuJax, AJaxlibThatDoesNotTellTheGpuIsTooOld) {
  const GpuArray data = on_gpu(filled(1, 1));
  OneCall call(RODA_ALLREDUCE, "jax old", 1, data.data(), 1, data.data());
  call.api().struct_size = offsetof(jax::Api, device_of);
  EXPECT_NE(call.run().find("newer jaxlib"), std::string::npos);
  EXPECT_EQ(data.read<float>(), filled(1, 1));
}

}  // namespace
}  // namespace roda::test
