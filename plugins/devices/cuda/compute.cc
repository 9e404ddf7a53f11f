#include "plugins/devices/cuda/device_state.h"
#include "plugins/devices/cuda/kernel_arguments.h"

namespace roda::cuda_device {
namespace {

Word address(const void* pointer) { return reinterpret_cast<Word>(pointer); }

Word blocks_for(Word length, Word per_block) { return (length + per_block - 1) / per_block; }

bool is_dtype(int32_t dtype) { return roda_dtype_size(dtype) != 0; }

// A kernel that does not know a dtype would leave the data as they are and tell nobody.
constexpr bool kernels_compute_all() {
  for (int dtype = kDtypes; dtype < RODA_DTYPE_COUNT; ++dtype) {
    if (roda_dtype_is(dtype, RODA_REDUCES) != 0 || roda_dtype_is(dtype, RODA_SCALES) != 0) return false;
  }
  return true;
}
static_assert(kernels_compute_all(), "kernels.cu lacks a dtype of the table that is reduced or scaled");

bool has_reduction(int32_t dtype, int32_t op) {
  return is_dtype(dtype) && (op == RODA_SUM || op == RODA_MIN || op == RODA_MAX || op == RODA_PRODUCT);
}

// `work` gets the place; without a stream it has been done on return.
template <typename Work>
int32_t at(void* stream, const void* data, const char* what, roda_error* error, Work&& work) {
  Place place;
  Status status = place.find(stream, data, what);
  if (status.ok()) status = work(place);
  if (status.ok()) status = place.finish(what);
  return status.to(error);
}

// A table of the items' segments at the place, for kernels that give each block a part of one segment. `width` is the
// size of what lengths count; `per_block` how many of these one block takes.
Status upload_segments(Place& place, const roda_pack_item* items, size_t count, std::size_t width, Word per_block,
                       Tables::Place* table, unsigned* segments, Word* blocks) {
  RODA_RETURN_IF_ERROR(place.gpu().tables().take(count * sizeof(Segment), table));
  auto* next = static_cast<Segment*>(table->host);
  *blocks = 0;
  *segments = 0;
  for (size_t i = 0; i < count; ++i) {
    const Word length = items[i].bytes / width;
    if (length == 0) continue;
    next[(*segments)++] = Segment{address(items[i].tensor), items[i].offset, length, *blocks};
    *blocks += blocks_for(length, per_block);
  }
  if (*segments == 0) return {};
  return place.gpu().tables().upload(*table, *segments * sizeof(Segment), place.stream());
}

// What can be had without kernels: one copy for each item.
Status copy_items(Place& place, void* buffer, const roda_pack_item* items, size_t count, bool packs) {
  const cuda::Driver& driver = *State::get().driver();
  for (size_t i = 0; i < count; ++i) {
    if (items[i].bytes == 0) continue;
    const Word in_buffer = address(buffer) + items[i].offset, tensor = address(items[i].tensor);
    const cuda::Result result =
        driver.MemcpyAsync(packs ? in_buffer : tensor, packs ? tensor : in_buffer, items[i].bytes, place.stream());
    RODA_RETURN_IF_ERROR(driver.check(result, packs ? "pack" : "unpack"));
  }
  return {};
}

Status move_items(Place& place, void* buffer, const roda_pack_item* items, size_t count, bool packs) {
  Kernels& kernels = place.gpu().kernels();
  if (count < 2 || !kernels.load().ok()) return copy_items(place, buffer, items, count, packs);
  Tables::Place table;
  PackArguments arguments{address(buffer), 0, 0, 0};
  Word blocks = 0;
  RODA_RETURN_IF_ERROR(upload_segments(place, items, count, 1, kBlockBytes, &table, &arguments.count, &blocks));
  arguments.segments = table.device;
  const Status status = kernels.launch(packs ? Kernels::kPack : Kernels::kUnpack, blocks, &arguments, place.stream());
  place.gpu().tables().give_back(table, place.stream());
  return status;
}

struct Scaling {
  int32_t dtype;
  double factor;
};

Status scale_items(Place& place, void* buffer, const roda_pack_item* items, size_t count, const Scaling& how,
                   bool packs) {
  Tables::Place table;
  PackScaledArguments arguments{address(buffer), 0, 0, how.dtype, how.factor};
  Word blocks = 0;
  RODA_RETURN_IF_ERROR(place.gpu().kernels().load());
  RODA_RETURN_IF_ERROR(upload_segments(place, items, count, roda_dtype_size(how.dtype), kBlockElements, &table,
                                       &arguments.count, &blocks));
  arguments.segments = table.device;
  const Status status = place.gpu().kernels().launch(packs ? Kernels::kPackScaled : Kernels::kUnpackScaled, blocks,
                                                     &arguments, place.stream());
  place.gpu().tables().give_back(table, place.stream());
  return status;
}

int32_t move_scaled(void* buffer, const roda_pack_item* items, size_t count, const Scaling& how, bool packs,
                    void* stream, roda_error* error) {
  if (!is_dtype(how.dtype)) return Status::unsupported("CUDA: no such dtype to scale").to(error);
  if (count == 0) return RODA_OK;
  return at(stream, buffer, packs ? "pack_scaled" : "unpack_scaled", error, [&](Place& place) {
    return how.factor == 1.0 ? move_items(place, buffer, items, count, packs)
                             : scale_items(place, buffer, items, count, how, packs);
  });
}

int32_t copy(void* to, const void* from, size_t bytes, void* stream, roda_error* error) {
  if (bytes == 0) return RODA_OK;
  const void* on_device = State::get().device_of(to) >= 0 ? to : from;
  return at(stream, on_device, "copy", error, [&](Place& place) {
    const cuda::Driver& driver = *State::get().driver();
    return driver.check(driver.MemcpyAsync(address(to), address(from), bytes, place.stream()), "cuMemcpyAsync");
  });
}

int32_t reduce(void* to, const void* a, const void* b, size_t count, int32_t dtype, int32_t op, void* stream,
               roda_error* error) {
  if (!has_reduction(dtype, op)) {
    return Status::unsupported(std::string("CUDA: can't reduce ") + roda_dtype_name(dtype) + " by " +
                               roda_reduce_op_name(op))
        .to(error);
  }
  if (count == 0) return RODA_OK;
  return at(stream, to, "reduce", error, [&](Place& place) {
    const ReduceArguments arguments{address(to), address(a), address(b), count, dtype, op};
    return place.gpu().kernels().launch(Kernels::kReduce, blocks_for(count, kBlockElements), &arguments,
                                        place.stream());
  });
}

int32_t scale(void* data, size_t count, int32_t dtype, double factor, void* stream, roda_error* error) {
  if (!is_dtype(dtype)) return Status::unsupported("CUDA: no scale of dtype " + std::to_string(dtype)).to(error);
  if (count == 0 || factor == 1.0) return RODA_OK;
  return at(stream, data, "scale", error, [&](Place& place) {
    const ScaleArguments arguments{address(data), count, dtype, 0, factor};
    return place.gpu().kernels().launch(Kernels::kScale, blocks_for(count, kBlockElements), &arguments, place.stream());
  });
}

int32_t launch_average(Kernels::Name kernel, const void* data, const AverageArguments& arguments, void* stream,
                       roda_error* error) {
  if (roda_dtype_is(arguments.dtype, RODA_INTEGER) == 0) {
    return Status::unsupported("CUDA: only averages of whole numbers are summed up in wider ones").to(error);
  }
  if (arguments.count == 0) return RODA_OK;
  return at(stream, data, "average", error, [&](Place& place) {
    return place.gpu().kernels().launch(kernel, blocks_for(arguments.count, kBlockElements), &arguments,
                                        place.stream());
  });
}

int32_t widen(void* sums, const void* values, size_t count, int32_t dtype, int32_t members, void* stream,
              roda_error* error) {
  return launch_average(Kernels::kWiden, sums, {address(values), address(sums), count, dtype, members, 1.0}, stream,
                        error);
}

int32_t average(void* values, const void* sums, size_t count, int32_t dtype, int32_t members, double postscale,
                void* stream, roda_error* error) {
  return launch_average(Kernels::kAverage, values, {address(values), address(sums), count, dtype, members, postscale},
                        stream, error);
}

int32_t pack(void* buffer, const roda_pack_item* items, size_t count, void* stream, roda_error* error) {
  if (count == 0) return RODA_OK;
  return at(stream, buffer, "pack", error, [&](Place& place) { return move_items(place, buffer, items, count, true); });
}

int32_t unpack(const void* buffer, const roda_pack_item* items, size_t count, void* stream, roda_error* error) {
  if (count == 0) return RODA_OK;
  return at(stream, buffer, "unpack", error,
            [&](Place& place) { return move_items(place, const_cast<void*>(buffer), items, count, false); });
}

int32_t pack_scaled(void* buffer, const roda_pack_item* items, size_t count, int32_t dtype, double factor, void* stream,
                    roda_error* error) {
  return move_scaled(buffer, items, count, {dtype, factor}, true, stream, error);
}

int32_t unpack_scaled(const void* buffer, const roda_pack_item* items, size_t count, int32_t dtype, double factor,
                      void* stream, roda_error* error) {
  return move_scaled(const_cast<void*>(buffer), items, count, {dtype, factor}, false, stream, error);
}

}  // namespace

void add_compute(roda_device* table) {
  table->copy = copy;
  table->reduce = reduce;
  table->scale = scale;
  table->pack = pack;
  table->unpack = unpack;
  table->pack_scaled = pack_scaled;
  table->unpack_scaled = unpack_scaled;
  table->widen = widen;
  table->average = average;
}

}  // namespace roda::cuda_device
