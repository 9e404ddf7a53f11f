// The data of one collective on a device whose stage does not put its work on the device's stream. Either the stage
// works in host memory, and the data are copied down into memory that both reach, and back up; or it works on the
// device's memory (a schedule over messages of a transport that takes it), and only has to wait for what the stream
// holds.
//
// Threads: the holder of the engine's baton.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/execute/device_queue.h"
#include "core/execute/memory.h"
#include "core/execute/stage.h"

namespace roda::execute {

class Staging {
 public:
  enum class Way : std::uint8_t { kThroughHost, kDirect };
  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  // Takes a collective on, of which `args` has a queue; `rank`, `size`: of its group. What is to be copied down is put
  // on the queue's stream.
  Status begin(const StageArgs& args, int rank, int size, Way way);
  // What the stage is started with, once that is over.
  const StageArgs& args() const { return inner_; }
  // The stage has ended: what it made is put on its way up.
  Status copy_up();
  // Whether what was put on the stream last is over, and all before it.
  Status test(bool* over) const { return copied_->test(over); }

 private:
  Status copy_down();
  Status point_to_device();
  Status open_own_stream();
  bool is_one_of_many() const { return roda_collective_is(args_.collective, RODA_ROOTED) != 0 && rank_ != args_.root; }
  bool combines() const { return roda_collective_is(args_.collective, RODA_COMBINES) != 0; }
  bool writes_output() const { return !combines() || !is_one_of_many(); }
  std::size_t bytes(int extent, const std::size_t* counts) const;
  std::size_t input_bytes() const;
  std::size_t output_bytes() const;

  int rank_ = 0;
  int size_ = 1;
  StageArgs args_, inner_;
  DeviceMemory input_, output_;
  roda_memory input_range_{}, output_range_{};  // of the device, where the stage works on it
  DeviceQueue own_queue_;                       // then
  std::shared_ptr<DeviceEvent> copied_;
};

}  // namespace roda::execute
