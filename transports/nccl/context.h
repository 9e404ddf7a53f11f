// One process's use of NCCL: the library, the GPUs, and the one order in which collectives are handed over.
#pragma once

#include <roda/sdk/group_state.hpp>

#include <deque>
#include <map>

#include "transports/nccl/collectives.h"
#include "transports/nccl/communicator.h"
#include "transports/nccl/library.h"
#include "transports/nccl/nccl.h"

namespace roda::nccl {

class Group;

// One thread at a time. Entries throw sdk::Failure.
class Context : public sdk::GroupList<Group> {
 public:
  explicit Context(const roda_host* host);

  // Throws when NCCL or the driver can't be used here. Does not start CUDA: processes that are forked later can still
  // use it.
  static void probe(const roda_host* host);
  // After probe(): the library and its version, for people.
  static const char* description();

  const roda_host* host() const { return host_; }
  void log(roda_log_level level, const std::string& text) const { sdk::log(host_, level, "nccl", text); }
  // How long the end of a communicator may take.
  std::chrono::milliseconds abort_timeout() const { return abort_timeout_; }
  // How long a collective may take once the GPU has come to it.
  std::chrono::milliseconds gpu_timeout() const { return gpu_timeout_; }
  int stream_slots() const { return stream_slots_; }
  bool may_register() const { return settings_.may_register; }  // buffers
  bool may_share() const { return settings_.may_share; }        // GPUs

  // Opened when the first group needs them, and then kept.
  const std::shared_ptr<const Library>& library();
  const cuda::Driver& driver();
  Gpu& gpu(int device) {
    std::unique_ptr<Gpu>& gpu = gpus_[device];
    if (gpu == nullptr) gpu = std::make_unique<Gpu>(driver(), device);
    return *gpu;
  }

  void leave(Group* group);
  // Collectives of all groups are handed to NCCL in the order in which they were started: NCCL must see the same order
  // of communicators on all ranks, and takes no call while another is under way.
  void enqueue(Group* group, Request* request) { queue_.push_back({group, request}); }
  // Hands over what can be; how many were.
  int pump();
  // Takes over the end of a communicator.
  void end_later(std::unique_ptr<Communicator> communicator) { ending_.push_back(std::move(communicator)); }

  // The entries of the ABI.
  static std::uint64_t capabilities();
  int progress();
  int event_fd() const { return -1; }
  bool arm() const { return true; }
  static std::uint32_t memory_kinds(int /*device*/) { return 1u << RODA_MEMORY_CUDA; }
  static bool collective_supported(int collective, int dtype, int op, int memory_kind);

 private:
  struct Turn {
    Group* group;
    Request* request;
  };

  const roda_host* const host_;
  const Settings settings_;
  std::chrono::milliseconds abort_timeout_, gpu_timeout_;
  int stream_slots_ = 1;
  std::shared_ptr<const Library> library_;
  const cuda::Driver* driver_ = nullptr;
  std::map<int, std::unique_ptr<Gpu>> gpus_;
  std::deque<Turn> queue_;
  std::vector<std::unique_ptr<Communicator>> ending_;
};

}  // namespace roda::nccl
