#include "core/bootstrap/rendezvous.h"

#include <fcntl.h>
#include <mbedtls/base64.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "plugins/base/format.h"
#include "plugins/base/hmac.h"
#include "plugins/base/mutex.h"
#include "plugins/base/unique_fd.h"

namespace roda {
namespace {

// `is_text`: people write files with editors, which end the last line.
Status read_all(int fd, const std::string& what, bool is_text, Secret* secret) {
  std::uint8_t buffer[Secret::kMaxBytes + 2];  // one newline, and one byte that shows that it is too long
  std::size_t size = 0;
  Status status;
  while (size < sizeof buffer) {
    ssize_t got = ::read(fd, buffer + size, sizeof buffer - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = Status::of_errno(roda::format("reading {}", what));
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (is_text && size > 0 && buffer[size - 1] == '\n') --size;
  Secret read{std::span<const std::uint8_t>(buffer, size)};
  explicit_bzero(buffer, sizeof buffer);
  RODA_RETURN_IF_ERROR(status);
  if (!read.is_long_enough()) {
    return Status::auth(roda::format("the secret in {} has {} bytes; {} to {} are needed", what, size,
                                     Secret::kMinBytes, Secret::kMaxBytes));
  }
  *secret = std::move(read);
  return {};
}

Status read_secret_fd_once(int fd, Secret* secret) {
  static Mutex mutex;
  static Secret* kept RODA_GUARDED_BY(mutex) = nullptr;  // for a second init; lives as long as the process
  static int kept_fd RODA_GUARDED_BY(mutex) = -1;
  const MutexLock lock(mutex);
  if (kept == nullptr || kept_fd != fd) {
    Secret read;
    RODA_RETURN_IF_ERROR(read_secret_fd(fd, &read));
    delete std::exchange(kept, new Secret(std::move(read)));
    kept_fd = fd;
  }
  *secret = *kept;
  return {};
}

}  // namespace

Status read_secret_file(const std::string& path, Secret* secret) {
  // Non-blocking: a FIFO under that name must not hang the start.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return Status::auth(roda::format("HOROVOD_SECRET_FILE={}: {}", path, std::strerror(errno)));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return Status::of_errno(path);
  if (!S_ISREG(info.st_mode)) return Status::auth(roda::format("HOROVOD_SECRET_FILE={}: not a regular file", path));
  if (info.st_uid != ::geteuid()) {
    return Status::auth(roda::format("HOROVOD_SECRET_FILE={}: belongs to user {}, not to this one ({})", path,
                                     info.st_uid, ::geteuid()));
  }
  if ((info.st_mode & 0177) != 0) {
    return Status::auth(
        roda::format("HOROVOD_SECRET_FILE={}: mode {:04o} lets others in; chmod 600 it", path, info.st_mode & 07777));
  }
  return read_all(fd.get(), "HOROVOD_SECRET_FILE=" + path, true, secret);
}

Status read_secret_fd(int fd, Secret* secret) {
  UniqueFd owner(fd);
  return read_all(fd, roda::format("HOROVOD_SECRET_FD={}", fd), false, secret);
}

Status decode_base64(std::string_view text, Secret* secret) {
  std::uint8_t buffer[Secret::kMaxBytes];
  std::size_t size = 0;
  int code = mbedtls_base64_decode(buffer, sizeof buffer, &size, reinterpret_cast<const std::uint8_t*>(text.data()),
                                   text.size());
  Secret decoded{std::span<const std::uint8_t>(buffer, code == 0 ? size : 0)};
  explicit_bzero(buffer, sizeof buffer);
  if (code != 0 || !decoded.is_long_enough()) {
    return Status::auth(
        roda::format("_HOROVOD_SECRET_KEY: expected base64 of {} to {} bytes", Secret::kMinBytes, Secret::kMaxBytes));
  }
  *secret = std::move(decoded);
  return {};
}

Status load_secret(const Knobs& knobs, Secret* secret) {
  Status status;
  if (!knobs.secret_file.empty()) {
    status = read_secret_file(knobs.secret_file, secret);
    if (status.ok() || knobs.secret_fd < 0) return status;
  }
  if (knobs.secret_fd >= 0) {
    const Status read = read_secret_fd_once(knobs.secret_fd, secret);
    if (read.ok() || status.ok()) return read;
    return Status::auth(status.message() + "; " + read.message());
  }
  if (!knobs.legacy_secret.empty()) return decode_base64(knobs.legacy_secret, secret);
  return Status::auth(
      "the job has a rendezvous but no secret: the launcher must set HOROVOD_SECRET_FD or HOROVOD_SECRET_FILE");
}

Status generate_secret(Secret* secret) {
  std::uint8_t random[32];
  RODA_RETURN_IF_ERROR(fill_random(random));
  std::uint8_t text[64];
  for (std::size_t i = 0; i < sizeof text; ++i) {
    text[i] = static_cast<std::uint8_t>("0123456789abcdef"[random[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15]);
  }
  *secret = Secret(text);
  explicit_bzero(random, sizeof random);
  explicit_bzero(text, sizeof text);
  return {};
}

}  // namespace roda
