#include "bindings/python/src/outputs.h"

#include <array>
#include <memory>
#include <vector>

#include "bindings/python/src/convert.h"
#include "bindings/python/src/dlpack.h"
#include "bindings/python/src/errors.h"

namespace roda::python {

namespace {

constexpr const char* kCapsuleName = "dltensor";
DLDataType dl_type(std::int32_t dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * roda_dtype_size(dtype));
  return {roda_dtype_of(dtype)->dlpack, bits, 1};
}

// The exported tensor and all it needs in one allocation; drops the engine's reference when it dies.
struct Export {
  using Release = void (*)(void* owner);
  explicit Export(const roda_output& output, Release release = roda_output_release)
      : owner(output.owner), release(release) {
    for (std::int32_t d = 0; d < output.ndim; ++d) shape[static_cast<std::size_t>(d)] = output.shape[d];
    managed.tensor.data = output.data;
    managed.tensor.device =
        output.device < 0 ? DLDevice{DLDeviceType::kCpu, 0} : DLDevice{DLDeviceType::kCuda, output.device};
    managed.tensor.ndim = output.ndim;
    managed.tensor.dtype = dl_type(output.dtype);
    managed.tensor.shape = shape.data();
    managed.context = this;
    managed.deleter = [](DLManagedTensor* self) { delete static_cast<Export*>(self->context); };
  }
  ~Export() { release(owner); }
  Export(const Export&) = delete;
  Export& operator=(const Export&) = delete;

  DLManagedTensor managed{};
  std::array<std::int64_t, kMaxDims> shape{};
  void* owner;
  Release release;
};

// A consumer renames the capsule and from then on owns the tensor; an unread capsule frees it here.
void destroy_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kCapsuleName) == 0) return;
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kCapsuleName));
  managed->deleter(managed);
}

roda_output get_output(roda_handle handle, std::int32_t index, std::int32_t* splits, std::int32_t capacity) {
  roda_output output = {};
  output.struct_size = sizeof(roda_output);
  output.received_splits = splits;
  output.received_splits_capacity = capacity;
  roda_error error = make_error();
  check(roda_get_output(handle, index, &output, &error), error);
  return output;
}

// How many there are is the operation's to say: the world's size is gone once the engine is shut down.
Object received_splits(roda_handle handle, std::int32_t index, std::int32_t count) {
  std::vector<std::int32_t> splits(static_cast<std::size_t>(count));
  const roda_output output = get_output(handle, index, splits.data(), count);
  roda_output_release(output.owner);  // the first look at it has a reference already
  return from(splits);
}

Object make_capsule(const roda_output& output, Export::Release release = roda_output_release) {
  auto exported = std::make_unique<Export>(output, release);
  Object capsule = Object::take(PyCapsule_New(&exported->managed, kCapsuleName, destroy_capsule));
  exported.release();
  return capsule;
}

}  // namespace

Object take_output(roda_handle handle, std::int32_t index) {
  const roda_output output = get_output(handle, index, nullptr, 0);
  Object capsule = Object::none();
  if (output.owner != nullptr) capsule = make_capsule(output);
  Object splits = Object::none();
  if (output.num_received_splits > 0) splits = received_splits(handle, index, output.num_received_splits);
  return Object::take(PyTuple_Pack(3, capsule.get(), splits.get(), from(output.value).get()));
}

Object lend_memory(std::int32_t process_set, std::uint64_t bytes) {
  roda_output memory = {};
  roda_error error = make_error();
  std::int32_t code = RODA_OK;
  {
    const Unlocked unlocked;
    code = roda_lend_memory(process_set, bytes, &memory.data, &memory.owner, &error);
  }
  if (code == RODA_ERR_UNAVAILABLE || code == RODA_ERR_NO_MEMORY) return Object::none();
  check(code, error);
  memory.ndim = 1;
  memory.shape[0] = static_cast<std::int64_t>(bytes);
  memory.dtype = RODA_UINT8;
  memory.device = -1;
  return make_capsule(memory, roda_give_memory_back);
}

}  // namespace roda::python
