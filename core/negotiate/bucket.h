// Which ready tensors travel together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/negotiate/request.h"
#include "plugins/base/kept_queue.h"

namespace roda::negotiate {

struct BucketRules {
  std::size_t threshold = 128u << 20;     // bytes of one bucket; 0: no fusion
  std::size_t limit = 256u << 10;         // an allreduce of more bytes travels alone: no bucket is worth copying it
  std::size_t copied_limit = 256u << 10;  // the same for what is always copied into a buffer and out of it
  // On devices, where packing costs little: a bucket of at least so many bytes waits for no more tensors.
  std::size_t complete = 22u << 20;
  bool adasum_apart = false;  // where a tensor is cut shows in its products' last bits (RODA_DETERMINISTIC)
  bool groups_apart = false;  // a group fuses only with itself (HOROVOD_DISABLE_GROUP_FUSION)
};

// Takes the first ready tensor and all later ones that may travel with it, in order; the others keep their order.
// `bucket` is cleared first.
// Tensors of one collective fuse when dtype, op, factors, root, wire format and kind of memory are equal, each has at
// most the limit's bytes (larger ones are worked on where they lie, which costs less than copying them), and all
// together at most the threshold's. Alltoalls, barriers and joins never do.
void take_bucket(KeptQueue<AgreedPtr>* ready, const BucketRules& rules, std::vector<AgreedPtr>* bucket);

// Tensors of one kind fuse, if they lie in memory alike: the same on every rank, and known before they are agreed on.
std::uint64_t kind_of(const Terms& terms);

// Buckets of tensors on devices, filled in the order in which the tensors are agreed on. The host runs ahead of its
// devices: buckets cut by what the devices have done, as those in host memory are, would hold many tensors or few as it
// happens, and the largest one would be the last. So these are cut by their bytes, which is the same in every step.
//
// The first tensor of a kind travels alone and at once, or with its group: what follows may take its time to come. Then
// a bucket is complete with BucketRules::complete bytes, or with the tensor that does not fit beside it, or when it is
// closed, with which the kind begins anew.
class FillingBuckets {
 public:
  void add(AgreedPtr tensor, const BucketRules& rules);
  // All that was agreed on at once has been added.
  void settle();
  // Closes the bucket of that kind (kind_of()); 0: of all kinds.
  void close(std::uint64_t kind);
  // The next bucket that is complete; false: none is.
  bool take(std::vector<AgreedPtr>* bucket);
  void clear();

  // Tensors of the kind that wait for others to fill their bucket; without a kind: of all.
  std::size_t waiting(std::uint64_t kind = 0) const;
  // A tensor of the kind was added since it was closed.
  bool has_begun(std::uint64_t kind) const;
  std::uint64_t added() const { return added_; }

 private:
  struct Filling {
    AgreedPtr like;
    std::uint64_t kind = 0;
    bool is_first = true;
    std::vector<AgreedPtr> tensors;
    std::size_t bytes = 0;
  };
  void complete(Filling* bucket);

  std::vector<Filling> filling_;  // in the order in which their kinds began
  std::deque<std::vector<AgreedPtr>> complete_;
  std::uint64_t added_ = 0;
};

// What the selection table calls the size of a launch over so many members: see select::Query::bytes.
std::size_t table_bytes(std::span<const AgreedPtr> tensors, std::size_t members);

}  // namespace roda::negotiate
