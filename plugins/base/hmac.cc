#include "plugins/base/hmac.h"

#include <mbedtls/md.h>
#include <sys/random.h>

#include <cerrno>
#include <string>

#include "plugins/base/format.h"

namespace roda {

Status hmac_sha256(Bytes key, std::initializer_list<Bytes> parts, Digest* digest) {
  mbedtls_md_context_t context;
  mbedtls_md_init(&context);
  int code = mbedtls_md_setup(&context, mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), 1);
  if (code == 0) code = mbedtls_md_hmac_starts(&context, key.data(), key.size());
  for (Bytes part : parts) {
    if (code == 0) code = mbedtls_md_hmac_update(&context, part.data(), part.size());
  }
  if (code == 0) code = mbedtls_md_hmac_finish(&context, digest->data());
  mbedtls_md_free(&context);
  return code == 0 ? Status() : Status::unknown("HMAC-SHA256 failed with code " + std::to_string(code));
}

bool equal_constant_time(Bytes a, Bytes b) {
  if (a.size() != b.size()) return false;
  volatile std::uint8_t difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference = difference | (a[i] ^ b[i]);
  return difference == 0;
}

Status fill_random(std::span<std::uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::of_errno("getrandom");
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

std::string random_name() {
  std::array<std::uint8_t, 16> random{};
  static_cast<void>(fill_random(random));  // without a generator the name is taken already, and making it fails
  std::string name;
  for (const std::uint8_t byte : random) name += roda::format("{:02x}", byte);
  return name;
}

}  // namespace roda
