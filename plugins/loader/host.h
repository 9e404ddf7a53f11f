// The host's side of the plugin ABI: builds the table of services that plugins are given.
#pragma once

#include <roda/abi/device.h>
#include <roda/abi/host.h>

#include <cstdlib>
#include <functional>
#include <utility>

namespace roda::plugins {

// Owns a roda_host. Outlives every context that was created with it; does not move. Settings are the environment's.
class Host {
 public:
  // Level is a roda_log_level. Called from any thread.
  using Log = std::function<void(int level, const char* component, const char* text)>;
  // `cpu`: whose kernels are behind reduce and copy.
  Host(Log log, const roda_device* cpu)
      : log_(std::move(log)),
        cpu_(cpu),
        table_{sizeof table_, RODA_ABI_VERSION, this, &Host::log, &Host::knob, &Host::reduce, &Host::copy} {}
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const roda_host* table() const { return &table_; }

 private:
  static void log(void* self, int32_t level, const char* component, const char* text) {
    static_cast<const Host*>(self)->log_(level, component, text);
  }
  static const char* knob(void*, const char* name) { return std::getenv(name); }
  static int32_t reduce(void* self, void* dst, const void* a, const void* b, size_t count, int32_t dtype, int32_t op) {
    return static_cast<const Host*>(self)->cpu_->reduce(dst, a, b, count, dtype, op, nullptr, nullptr);
  }
  // Host memory can always be copied.
  static void copy(void* self, void* dst, const void* src, size_t bytes) {
    static_cast<void>(static_cast<const Host*>(self)->cpu_->copy(dst, src, bytes, nullptr, nullptr));
  }

  const Log log_;
  const roda_device* const cpu_;
  roda_host table_;
};

}  // namespace roda::plugins
