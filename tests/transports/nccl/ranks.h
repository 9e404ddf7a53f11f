// Ranks as threads over the doubles of NCCL and CUDA, each on a device of its own.
#pragma once

#include <roda/abi/device.h>
#include <stdlib.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "plugins/devices/cuda/cuda_device.h"
#include "tests/transports/thread_ranks.h"
#include "transports/nccl/nccl.h"

namespace roda::nccl_test {

using transport_test::Board;
using transport_test::host_of;
using transport_test::Knobs;
using transport_test::Member;

// A variable of the doubles, for as long as it lives.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Setting() { ::unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

inline Knobs knobs_of(int local_rank) {
  return {{"RODA_NCCL_LIBRARY", ::getenv("RODA_NCCL_LIBRARY")},
          {"RODA_TEST_CUDA_LIBRARY", ::getenv("RODA_TEST_CUDA_LIBRARY")},
          {"HOROVOD_ABORT_TIMEOUT_SECONDS", "2"},
          {"HOROVOD_LOCAL_RANK", std::to_string(local_rank)}};
}

// Asks the probes, so that the library and the driver are known.
inline const roda_device& device() {
  static const bool was_asked = [] {
    static Knobs knobs = knobs_of(0);
    const roda_host host = host_of(&knobs);
    return roda_cuda_device()->probe(&host, nullptr) == RODA_OK &&
           roda_nccl_transport()->probe(&host, nullptr) == RODA_OK;
  }();
  if (!was_asked) ::abort();
  return *roda_cuda_device();
}

// Floats on a device.
class Floats {
 public:
  Floats(int number, const std::vector<float>& values) : count_(values.size()) {
    memory_.struct_size = sizeof memory_;
    if (device().alloc(number, count_ * sizeof(float), &memory_, nullptr) != RODA_OK) ::abort();
    device().copy(memory_.address, values.data(), count_ * sizeof(float), nullptr, nullptr);
  }
  ~Floats() { device().free(&memory_); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;

  // It stays in use, and is never given back.
  void keep() { memory_.owner = nullptr; }
  float* data() { return static_cast<float*>(memory_.address); }
  std::size_t count() const { return count_; }
  std::vector<float> read() {
    std::vector<float> values(count_);
    device().copy(values.data(), memory_.address, count_ * sizeof(float), nullptr, nullptr);
    return values;
  }

 private:
  std::size_t count_;
  roda_memory memory_{};
};

struct End {
  int code = RODA_OK;
  int rank = -1;
  std::string text;
};

inline roda_error make_error() {
  roda_error error{};
  error.struct_size = sizeof error;
  error.rank = -1;
  return error;
}

inline End start_allreduce(Member& member, void* data, std::size_t count, roda_request** request, int op = RODA_SUM,
                           void* stream = nullptr) {
  roda_collective_args args{};
  args.struct_size = sizeof args;
  args.collective = RODA_ALLREDUCE;
  args.dtype = RODA_FLOAT32;
  args.op = op;
  args.memory_kind = RODA_MEMORY_CUDA;
  args.input = args.output = data;
  args.count = count;
  args.tag = 1;
  args.stream = stream;
  roda_error error = make_error();
  *request = nullptr;
  const int code = roda_nccl_transport()->collective_start(member.group(), &args, request, &error);
  return {code, error.rank, error.message};
}

inline End finish(Member& member, roda_request* request) {
  roda_error error = make_error();
  int code = RODA_OK;
  while (request != nullptr &&
         (code = roda_nccl_transport()->request_test(member.group(), request, &error)) == RODA_IN_PROGRESS) {
    roda_nccl_transport()->progress(member.context());
    std::this_thread::yield();
  }
  return {code, error.rank, error.message};
}

inline End allreduce(Member& member, Floats& data, int op = RODA_SUM) {
  roda_request* request = nullptr;
  const End started = start_allreduce(member, data.data(), data.count(), &request, op);
  return started.code == RODA_OK ? finish(member, request) : started;
}

// True when the text has all the parts.
inline bool says(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (text.find(part) == std::string::npos) return false;
  }
  return true;
}

}  // namespace roda::nccl_test
