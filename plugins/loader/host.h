// The host's side of the plugin ABI: builds the table of services that plugins are given.
#pragma once

#include <roda/abi/device.h>
#include <roda/abi/host.h>

#include <functional>

namespace roda::plugins {

struct HostServices {
  // Level is a roda_log_level. Called from any thread.
  std::function<void(int level, const char* component, const char* text)> log;
  // Text of a setting that stays valid for the life of the process, or null. Called from any thread.
  std::function<const char*(const char* name)> knob;
  // The kernels behind reduce and copy: the built-in CPU device.
  const roda_device* cpu = nullptr;
};

// Owns a roda_host. Outlives every context that was created with it; does not move.
class Host {
 public:
  explicit Host(HostServices services);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const roda_host* table() const { return &table_; }

 private:
  static void log(void* self, int32_t level, const char* component, const char* text);
  static const char* knob(void* self, const char* name);
  static int32_t reduce(void* self, void* dst, const void* a, const void* b, size_t count, int32_t dtype, int32_t op);
  static void copy(void* self, void* dst, const void* src, size_t bytes);

  HostServices services_;
  roda_host table_;
};

}  // namespace roda::plugins
