// The host's side of the plugin ABI: builds the table of services that plugins are given.
#pragma once

#include <roda/abi/device.h>
#include <roda/abi/host.h>

#include <functional>

namespace roda::plugins {

// Owns a roda_host. Outlives every context that was created with it; does not move. Settings are the environment's.
class Host {
 public:
  // Level is a roda_log_level. Called from any thread.
  using Log = std::function<void(int level, const char* component, const char* text)>;
  // `cpu`: whose kernels are behind reduce and copy.
  Host(Log log, const roda_device* cpu);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const roda_host* table() const { return &table_; }

 private:
  static void log(void* self, int32_t level, const char* component, const char* text);
  static const char* knob(void* self, const char* name);
  static int32_t reduce(void* self, void* dst, const void* a, const void* b, size_t count, int32_t dtype, int32_t op);
  static void copy(void* self, void* dst, const void* src, size_t bytes);

  const Log log_;
  const roda_device* const cpu_;
  roda_host table_;
};

}  // namespace roda::plugins
