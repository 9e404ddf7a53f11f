// Adasum of data on devices: averages inside each host, where a transport works on the devices' memory, and Adasum
// between hosts, in host memory.
//
// A native reduce-scatter leaves every rank of a host with a share of the host's average; the shares of all hosts are
// combined by the levels of Adasum that lie between hosts, whose products are summed up over the whole tensor; a native
// allgather brings the shares back together.
//
// Threads: the holder of the engine's baton.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/execute/adasum/adasum_stage.h"
#include "core/execute/device/device_queue.h"
#include "core/execute/stage.h"
#include "core/execute/stage_pool.h"

namespace roda::execute {

class DeviceAdasumStage final : public Stage {
 public:
  // `inside`: of this rank's host; outlives it. `across`: over all ranks, its arrangement is scattered() of the hosts.
  DeviceAdasumStage(StagePool& inside, std::unique_ptr<AdasumStage> across)
      : inside_(inside), across_(std::move(across)) {}
  // `hosts`: ranks of each host, powers of two of equally many. What rank i of a host gets of a reduce-scatter is the
  // i-th share, and its place in the tree is the one that holds that share.
  static AdasumStage::Arrangement scattered(const std::vector<std::vector<int>>& hosts);

  Status start(const StageArgs& args) override;
  Status test(bool* done) override;
  bool is_on_stream() override { return phase_ == Phase::kGather && running_->is_on_stream(); }
  void abort(const Status& cause) override;
  std::uint64_t moves() const override { return moves_ + (running_ == nullptr ? 0 : running_->moves()); }
  std::string describe() const override;

 private:
  enum class Phase : std::uint8_t { kIdle, kScatter, kDown, kAcross, kGather };

  void count_shares();
  Status start_native(int collective, const void* input, void* output);
  Status copy_down();
  Status start_across();
  Status start_gather();
  Status advance(bool* waits);
  Status end_failed(bool* done);

  StagePool& inside_;
  std::unique_ptr<AdasumStage> across_;
  StageHandle native_;
  Stage* running_ = nullptr;  // null: none
  Phase phase_ = Phase::kIdle;
  StageArgs args_;
  std::vector<std::size_t> shares_;  // [ranks of the host] elements
  std::size_t own_bytes_ = 0;
  DeviceMemory share_, staging_;
  std::shared_ptr<DeviceEvent> copied_;
  std::uint64_t moves_ = 0;
  Status failure_;
};

}  // namespace roda::execute
