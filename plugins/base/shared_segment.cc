#include "plugins/base/shared_segment.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "plugins/base/hmac.h"
#include "plugins/base/process_limits.h"

namespace roda {

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::size_t page_size() {
  static const std::size_t size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

std::size_t up_to_page(std::size_t bytes) { return (bytes + page_size() - 1) / page_size() * page_size(); }

// Opened with a random name that exists for no longer than this function.
UniqueFd open_posix(const std::string& label) {
  const std::string name = "/" + label + "-" + random_name();
  UniqueFd fd(::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd) ::shm_unlink(name.c_str());
  return fd;
}

// memfd has no size limit of its own: the kernel would look for pages until it kills somebody.
bool exceeds_memory(std::size_t bytes) {
  std::ifstream file("/proc/meminfo");
  for (std::string name, rest; file >> name;) {
    std::uint64_t kilobytes = 0;
    if (name == "MemAvailable:" && file >> kilobytes) return bytes / 1024 > kilobytes;
    std::getline(file, rest);
  }
  return false;
}

}  // namespace

SharedSegment::~SharedSegment() {
  if (data_ == nullptr) return;
  std::size_t begin = 0;
  for (const auto& [offset, bytes] : kept_) {
    if (offset > begin) ::munmap(data_ + begin, offset - begin);
    begin = up_to_page(offset + bytes);
  }
  if (size_ > begin) ::munmap(data_ + begin, size_ - begin);
}

Status SharedSegment::map() {
  void* address = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (address == MAP_FAILED) return Status::of_errno("mapping " + std::to_string(size_) + " bytes of shared memory");
  data_ = static_cast<std::byte*>(address);
  if (::madvise(data_, size_, MADV_DONTFORK) != 0) return Status::of_errno("MADV_DONTFORK");
  return {};
}

Status SharedSegment::create(const std::string& label, std::size_t bytes, SharedSegment* out, bool force_posix) {
  if (bytes == 0) return Status::invalid("a shared segment of 0 bytes");
  SharedSegment made;
  made.size_ = up_to_page(bytes);
  if (!force_posix) made.fd_.reset(::memfd_create(label.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  made.is_memfd_ = static_cast<bool>(made.fd_);
  const std::string refusal = std::strerror(errno);  // unless it was not asked
  if (!made.fd_) made.fd_ = open_posix(label);
  if (!made.fd_) {
    return Status::of_errno("creating shared memory: " + (force_posix ? "" : "memfd_create: " + refusal + "; ") +
                            "in /dev/shm, which this user must be able to write to");
  }
  if (made.size_ > largest_file()) {
    return Status::unavailable(std::to_string(made.size_ >> 10) +
                               " KiB of shared memory are a file for the kernel, and "
                               "files may not be so long (" +
                               file_size_limit() + "): raise that limit");
  }
  if (::ftruncate(made.fd_.get(), static_cast<off_t>(made.size_)) != 0) return Status::of_errno("sizing shared memory");
  if (made.is_memfd_ && ::fcntl(made.fd_.get(), F_ADD_SEALS, kSeals) != 0) return Status::of_errno("sealing a memfd");
  RODA_RETURN_IF_ERROR(made.map());
  *out = std::move(made);
  return {};
}

Status SharedSegment::attach(UniqueFd fd, std::size_t bytes, SharedSegment* out) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return Status::of_errno("looking at a peer's shared memory");
  if (!S_ISREG(info.st_mode) || bytes == 0 || static_cast<std::uint64_t>(info.st_size) < bytes) {
    return Status::invalid("a peer's shared memory has " + std::to_string(info.st_size) + " bytes where " +
                           std::to_string(bytes) + " were announced");
  }
  // A POSIX object can take no seals and says so: F_SEAL_SEAL alone on tmpfs, EINVAL elsewhere.
  int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals >= 0 && (seals & F_SEAL_SHRINK) == 0 && (seals & F_SEAL_SEAL) == 0) {
    return Status::invalid("a peer's shared memory is not sealed against shrinking");
  }
  SharedSegment made;
  made.size_ = bytes;
  made.fd_ = std::move(fd);
  made.is_memfd_ = seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
  RODA_RETURN_IF_ERROR(made.map());
  *out = std::move(made);
  return {};
}

Status SharedSegment::reserve(std::size_t offset, std::size_t bytes) {
  if (bytes == 0) return {};
  if (offset > size_ || bytes > size_ - offset) return Status::invalid("a range outside the shared segment");
  if (exceeds_memory(bytes)) {
    return Status::no_memory(std::to_string(bytes) + " bytes of shared memory are more than this machine has free");
  }
  int rc;
  do {
    rc = ::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (rc != 0 && errno == EINTR);
  if (rc == 0) return {};
  return Status::no_memory(
      "no room for " + std::to_string(bytes) + " bytes of shared memory (" + (is_memfd_ ? "memfd" : "/dev/shm") +
      "): " + std::strerror(errno) +
      (is_memfd_ ? "" : "; make /dev/shm larger (mount -o remount,size=, or docker run --shm-size)"));
}

void SharedSegment::punch(std::size_t offset, std::size_t bytes) {
  std::size_t first = up_to_page(offset);
  std::size_t last = (offset + bytes) / page_size() * page_size();
  if (last <= first || last > size_) return;
  // Nothing hangs on the outcome: the pages merely stay.
  (void)::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, static_cast<off_t>(first),
                    static_cast<off_t>(last - first));
}

}  // namespace roda
