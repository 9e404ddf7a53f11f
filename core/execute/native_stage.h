// A native collective of a transport.
#pragma once

#include <cstdint>
#include <string>

#include "core/execute/group.h"
#include "core/execute/stage.h"

namespace roda::execute {

class NativeStage final : public Stage {
 public:
  explicit NativeStage(TransportGroup& group) : group_(group) {}

  Status start(const StageArgs& args) override;
  Status test(bool* done) override;
  bool is_on_stream() override;
  void abort(const Status& cause) override;
  std::uint64_t moves() const override { return moves_; }
  std::string describe() const override;

 private:
  Status finish(int code);

  TransportGroup& group_;
  roda_collective_args args_{};
  roda_request* request_ = nullptr;
  bool running_ = false;
  std::uint64_t number_ = 0;  // among the collectives of the group
  bool started_ = false;      // false: it is not its turn, or the transport said RODA_AGAIN so far
  std::uint64_t moves_ = 0;
  Status failure_;
};

}  // namespace roda::execute
