#include "core/execute/pack.h"

#include <algorithm>
#include <utility>

#include "plugins/base/copy.h"

namespace roda::execute {
namespace {

// Joined ranks and the gaps between tensors give these.
alignas(kLine) constexpr char kZeros[16 << 10] = {};

// The timeline's names of packing and unpacking, as Horovod has them.
constexpr const char* kPacks = "MEMCPY_IN_FUSION_BUFFER";
constexpr const char* kUnpacks = "MEMCPY_OUT_FUSION_BUFFER";

// Items are in order; the first one that ends after `begin`.
std::vector<roda_pack_item>::const_iterator first_after(const std::vector<roda_pack_item>& items, std::size_t begin) {
  return std::ranges::partition_point(items, [&](const roda_pack_item& i) { return i.offset + i.bytes <= begin; });
}

// Where the range begins in the tensor that holds all of it, null when none does.
char* inside(const std::vector<roda_pack_item>& items, std::size_t begin, std::size_t bytes) {
  const auto item = first_after(items, begin);
  if (item == items.end() || item->offset > begin || begin + bytes > item->offset + item->bytes) return nullptr;
  return static_cast<char*>(item->tensor) + (begin - item->offset);
}

}  // namespace

std::size_t aligned_elements(std::size_t count, int dtype, std::size_t grain) {
  const std::size_t element = roda_dtype_size(dtype);
  return (count * element + grain - 1) / grain * grain / element;
}

void Bucket::begin(int dtype) {
  dtype_ = dtype;
  elements_ = own_begin_ = own_elements_ = out_elements_ = 0;
  recv_counts_.clear();
  in_.clear();
  out_.clear();
  zeros_.clear();
}

void Bucket::add_in(const void* tensor, std::size_t offset, std::size_t bytes) {
  // The ABI's pack item serves both ways; pack only reads the tensor.
  if (bytes > 0) (tensor == nullptr ? zeros_ : in_).push_back({const_cast<void*>(tensor), offset, bytes});
}

void Bucket::add_out(void* tensor, std::size_t offset, std::size_t bytes) {
  if (bytes > 0 && tensor != nullptr) out_.push_back({tensor, offset, bytes});
}

void Bucket::lay_out_allreduce(const BucketTensor* tensors, std::size_t count, int dtype, bool zeroes_gaps,
                               std::size_t grain) {
  begin(dtype);
  const std::size_t element = roda_dtype_size(dtype);
  std::size_t offset = 0;
  for (std::size_t t = 0; t < count; ++t) {
    const std::size_t bytes = tensors[t].count * element;
    add_in(tensors[t].input, offset, bytes);
    add_out(tensors[t].output, offset, bytes);
    const bool is_last = t + 1 == count;
    const std::size_t next = offset + (is_last ? bytes : aligned_elements(tensors[t].count, dtype, grain) * element);
    if (zeroes_gaps) add_in(nullptr, offset + bytes, next - offset - bytes);
    offset = next;
  }
  elements_ = own_elements_ = out_elements_ = offset / element;
}

void Bucket::lay_out_blocks(int collective, const BucketTensor* tensors, std::size_t count, int dtype, int rank,
                            int size) {
  begin(dtype);
  const bool gathers = collective == RODA_ALLGATHER;
  const std::size_t element = roda_dtype_size(dtype);
  const auto own = static_cast<std::size_t>(rank);
  std::size_t offset = 0;
  std::size_t result = 0;
  written_.assign(count, 0);
  for (std::size_t r = 0; r < static_cast<std::size_t>(size); ++r) {
    const std::size_t block = offset;
    for (std::size_t t = 0; t < count; ++t) {
      const std::size_t bytes = tensors[t].counts[r] * element;
      const char* input = static_cast<const char*>(tensors[t].input);
      char* output = static_cast<char*>(tensors[t].output);
      if (gathers) {
        if (r == own) add_in(input, offset, bytes);
        add_out(output == nullptr ? nullptr : output + written_[t], offset, bytes);
      } else {
        add_in(input == nullptr ? nullptr : input + written_[t], offset, bytes);
        if (r == own) add_out(output, std::exchange(result, result + bytes), bytes);
      }
      written_[t] += bytes;
      offset += bytes;
    }
    if (gathers && r == own) own_begin_ = block / element;
    recv_counts_.push_back((offset - block) / element);
  }
  elements_ = offset / element;
  own_elements_ = gathers ? recv_counts_[own] : elements_;
  out_elements_ = gathers ? elements_ : recv_counts_[own];
}

// On a device what is zero already is the source of the next, so that it is called a few times only.
Status Bucket::zero(const std::vector<roda_pack_item>& items, void* buffer) const {
  for (const roda_pack_item& item : items) {
    char* to = static_cast<char*>(buffer) + item.offset;
    for (std::size_t done = 0; done < item.bytes;) {
      const bool doubles = done > 0 && !queue_.is_host();
      const std::size_t more = std::min(doubles ? done : sizeof kZeros, item.bytes - done);
      RODA_RETURN_IF_ERROR(queue_.copy(to + done, doubles ? to : kZeros, more));
      done += more;
    }
  }
  return {};
}

Status Bucket::pack(void* buffer, double prescale) {
  const Trace::Copy copy(trace_, kPacks);
  RODA_RETURN_IF_ERROR(zero(zeros_, buffer));
  if (prescale != 1.0 && queue_.device->pack_scaled != nullptr) {
    return invoke(queue_.device->pack_scaled, buffer, in_.data(), in_.size(), dtype_, prescale, queue_.stream);
  }
  RODA_RETURN_IF_ERROR(queue_.pack(buffer, in_.data(), in_.size()));
  char* own = static_cast<char*>(buffer) + own_begin_ * roda_dtype_size(dtype_);
  return queue_.scale(own, own_elements_, dtype_, prescale);
}

Status Bucket::unpack(void* buffer, double postscale) {
  const Trace::Copy copy(trace_, kUnpacks);
  if (postscale != 1.0 && queue_.device->unpack_scaled != nullptr) {
    return invoke(queue_.device->unpack_scaled, buffer, out_.data(), out_.size(), dtype_, postscale, queue_.stream);
  }
  RODA_RETURN_IF_ERROR(queue_.scale(buffer, out_elements_, dtype_, postscale));
  return queue_.unpack(buffer, out_.data(), out_.size());
}

bool Bucket::lies_in_one_tensor(std::size_t begin, std::size_t bytes, const void** input, void** output) const {
  *input = inside(in_, begin, bytes);
  *output = inside(out_, begin, bytes);
  return *input != nullptr && *output != nullptr;
}

// The parts of the items that lie in the range, with offsets from its beginning.
const std::vector<roda_pack_item>& Bucket::clip(const std::vector<roda_pack_item>& items, std::size_t begin,
                                                std::size_t bytes) {
  clipped_.clear();
  for (auto item = first_after(items, begin); item != items.end() && item->offset < begin + bytes; ++item) {
    const std::size_t from = std::max(item->offset, begin);
    const std::size_t to = std::min(item->offset + item->bytes, begin + bytes);
    char* tensor = static_cast<char*>(item->tensor);
    clipped_.push_back({tensor == nullptr ? nullptr : tensor + (from - item->offset), from - begin, to - from});
  }
  return clipped_;
}

Status Bucket::pack_part(void* part, std::size_t begin, std::size_t bytes, double prescale, bool far) {
  const Trace::Copy copy(trace_, kPacks);
  RODA_RETURN_IF_ERROR(zero(clip(zeros_, begin, bytes), part));
  const auto& items = clip(in_, begin, bytes);
  if (far) {
    for (const auto& item : items) cpu::copy_streaming(static_cast<char*>(part) + item.offset, item.tensor, item.bytes);
  } else {
    RODA_RETURN_IF_ERROR(queue_.pack(part, items.data(), items.size()));
  }
  return scale(part, bytes, prescale);
}

Status Bucket::unpack_part(void* part, std::size_t begin, std::size_t bytes, double postscale) {
  const Trace::Copy copy(trace_, kUnpacks);
  RODA_RETURN_IF_ERROR(scale(part, bytes, postscale));
  const auto& items = clip(out_, begin, bytes);
  return queue_.unpack(part, items.data(), items.size());
}

}  // namespace roda::execute
