#include "transports/verbs/settings.h"

#include <roda/sdk/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace roda::verbs {

namespace {

const char* text_of(const roda_host* host, const char* name) {
  const char* text = host != nullptr && host->knob != nullptr ? host->knob(host->self, name) : nullptr;
  return text != nullptr && *text != 0 ? text : nullptr;
}

template <typename Number>
void read(const roda_host* host, const char* name, long long least, long long most, Number* number) {
  const char* text = text_of(host, name);
  if (text == nullptr) return;
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text, &end, 10);
  if (end == text || *end != 0 || errno != 0) {
    throw sdk::Failure(RODA_ERR_INVALID, std::string(name) + "='" + text + "' is not a number");
  }
  *number = static_cast<Number>(std::clamp(value, least, most));
}

}  // namespace

Settings read_settings(const roda_host* host) {
  Settings settings;
  if (const char* text = text_of(host, "RODA_VERBS_LIBRARY")) settings.library = text;
  if (const char* text = text_of(host, "RODA_VERBS_DEVICES")) settings.devices = text;
  read(host, "RODA_VERBS_GID_INDEX", -1, 255, &settings.gid_index);
  read(host, "RODA_VERBS_RAILS", 1, kMaxRails, &settings.rails);
  read(host, "RODA_VERBS_ROTATE", 0, 1, &settings.rotate);
  read(host, "RODA_VERBS_EAGER_BYTES", 64, 1 << 20, &settings.eager_bytes);
  read(host, "RODA_VERBS_CREDITS", 4, 1024, &settings.credits);
  read(host, "RODA_VERBS_STRIPE_BYTES", 1, 1 << 30, &settings.stripe_bytes);
  read(host, "RODA_VERBS_TIMEOUT", 1, 31, &settings.timeout);
  read(host, "RODA_VERBS_RETRIES", 1, 6, &settings.retries);
  read(host, "RODA_VERBS_TRAFFIC_CLASS", 0, 255, &settings.traffic_class);
  read(host, "RODA_VERBS_PROBE_MS", 10, 600'000, &settings.probe_ms);
  return settings;
}

}  // namespace roda::verbs
