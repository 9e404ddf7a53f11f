#include "plugins/loader/host.h"

#include <cstring>
#include <utility>

namespace roda::plugins {

Host::Host(HostServices services)
    : services_(std::move(services)), table_{sizeof table_, RODA_ABI_VERSION, this, &log, &knob, &reduce, &copy} {}

void Host::log(void* self, int32_t level, const char* component, const char* text) {
  const Host& host = *static_cast<const Host*>(self);
  if (host.services_.log) host.services_.log(level, component, text);
}

const char* Host::knob(void* self, const char* name) {
  const Host& host = *static_cast<const Host*>(self);
  return host.services_.knob ? host.services_.knob(name) : nullptr;
}

int32_t Host::reduce(void* self, void* dst, const void* a, const void* b, size_t count, int32_t dtype, int32_t op) {
  const roda_device* cpu = static_cast<const Host*>(self)->services_.cpu;
  if (cpu == nullptr) return RODA_ERR_UNSUPPORTED;
  return cpu->reduce(dst, a, b, count, dtype, op, nullptr, nullptr);
}

void Host::copy(void* self, void* dst, const void* src, size_t bytes) {
  const roda_device* cpu = static_cast<const Host*>(self)->services_.cpu;
  if (cpu == nullptr || cpu->copy(dst, src, bytes, nullptr, nullptr) != RODA_OK) std::memcpy(dst, src, bytes);
}

}  // namespace roda::plugins
