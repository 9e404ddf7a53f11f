#include "transports/tcp/settings.h"

#include <roda/sdk/error.hpp>

#include <algorithm>
#include <cstdlib>

#include "transports/tcp/wire.h"

namespace roda::tcp_transport {

namespace {

const char* knob(const roda_host* host, const char* name) {
  const char* text = host != nullptr && host->knob != nullptr ? host->knob(host->self, name) : nullptr;
  return text != nullptr && *text != '\0' ? text : nullptr;
}

void read_number(const roda_host* host, const char* name, std::size_t least, std::size_t most, std::size_t* value) {
  const char* text = knob(host, name);
  if (text == nullptr) return;
  char* end = nullptr;
  const long long number = std::strtoll(text, &end, 10);
  if (*end != '\0' || number < 0) {
    throw sdk::Failure(RODA_ERR_INVALID, std::string(name) + "=" + text + " is not a number; " + std::to_string(least) +
                                             " to " + std::to_string(most) + " is expected");
  }
  *value = std::clamp(static_cast<std::size_t>(number), least, most);
}

}  // namespace

Settings read_settings(const roda_host* host) {
  Settings settings;
  for (const char* name : {"RODA_TCP_IFACE", "HOROVOD_GLOO_IFACE"}) {
    const char* text = knob(host, name);
    if (text == nullptr) continue;
    settings.interfaces = text;
    settings.interfaces_setting = name;
    break;
  }
  if (const char* text = knob(host, "RODA_TCP_CONGESTION")) settings.congestion = text;
  read_number(host, "RODA_TCP_LANES", 1, kMostLanes, &settings.lanes);
  read_number(host, "RODA_TCP_EAGER_BYTES", 0, kMostEager, &settings.eager_bytes);
  read_number(host, "RODA_TCP_WINDOW_BYTES", 0, 1 << 30, &settings.window_bytes);
  read_number(host, "RODA_TCP_CHUNK_BYTES", 4096, kMostChunk, &settings.chunk_bytes);
  return settings;
}

}  // namespace roda::tcp_transport
