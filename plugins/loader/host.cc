#include "plugins/loader/host.h"

#include <cstdlib>
#include <utility>

namespace roda::plugins {

Host::Host(Log log, const roda_device* cpu)
    : log_(std::move(log)),
      cpu_(cpu),
      table_{sizeof table_, RODA_ABI_VERSION, this, &Host::log, &Host::knob, &Host::reduce, &Host::copy} {}

void Host::log(void* self, int32_t level, const char* component, const char* text) {
  static_cast<const Host*>(self)->log_(level, component, text);
}

const char* Host::knob(void*, const char* name) { return std::getenv(name); }

int32_t Host::reduce(void* self, void* dst, const void* a, const void* b, size_t count, int32_t dtype, int32_t op) {
  return static_cast<const Host*>(self)->cpu_->reduce(dst, a, b, count, dtype, op, nullptr, nullptr);
}

// Host memory can always be copied.
void Host::copy(void* self, void* dst, const void* src, size_t bytes) {
  static_cast<void>(static_cast<const Host*>(self)->cpu_->copy(dst, src, bytes, nullptr, nullptr));
}

}  // namespace roda::plugins
