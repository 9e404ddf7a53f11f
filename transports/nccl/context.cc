#include "transports/nccl/context.h"

#include <roda/sdk/transport.hpp>

#include <cstdio>
#include <cstdlib>

#include "transports/nccl/group.h"
#include "transports/nccl/nccl.h"

namespace roda::nccl {
namespace {

// Found by the last probe; what the support matrix depends on.
std::atomic<int> probed_version{0};
std::atomic<bool> has_memory{false};

constexpr std::uint64_t kCapabilities =
    RODA_CAP_NATIVE | RODA_CAP_REGISTER | RODA_CAP_ALLOCATE | RODA_CAP_FAULT_TOLERANT;

void note(const Library& library) {
  probed_version.store(library.version);
  has_memory.store(library.registers_buffers());
}
char described[256] = "NCCL, opened at run time";

std::chrono::milliseconds seconds(double count) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(count * 1000));
}

double number(const roda_host* host, const char* name, double otherwise) {
  const char* text = sdk::knob(host, name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (*end == '\0' && value > 0) return value;
  throw sdk::Failure(RODA_ERR_INVALID, std::string(name) + "='" + text + "' is not a number above 0");
}

const cuda::Driver& open_driver(const Settings& settings) {
  const cuda::Driver* driver = nullptr;
  const Status status = cuda::Driver::open(settings.cuda_library.c_str(), &driver);
  if (!status.ok()) throw sdk::Failure(status.code(), status.message());
  return *driver;
}

}  // namespace

void Context::probe(const roda_host* host) {
  const Settings settings = sdk::read_settings(kSettings, host);
  const std::shared_ptr<const Library> library = Library::find(settings.library.c_str());
  const cuda::Driver& driver = open_driver(settings);
  note(*library);
  std::snprintf(described, sizeof described, "%s, %s %s by the driver", library->description().c_str(), driver.vendor(),
                cuda::version_text(driver.version).c_str());
}

const char* Context::description() { return described; }

std::uint64_t Context::capabilities() {
  return has_memory.load() ? kCapabilities : kCapabilities & ~std::uint64_t{RODA_CAP_ALLOCATE};
}

Context::Context(const roda_host* host)
    : host_(host),
      settings_(sdk::read_settings(kSettings, host)),
      abort_timeout_(seconds(number(host, "HOROVOD_ABORT_TIMEOUT_SECONDS", 10))),
      gpu_timeout_(seconds(number(host, "RODA_GPU_TIMEOUT_SECONDS", 600))),
      stream_slots_(static_cast<int>(number(host, "HOROVOD_NUM_NCCL_STREAMS", 1))) {}

const std::shared_ptr<const Library>& Context::library() {
  if (library_ == nullptr) {
    library_ = Library::find(settings_.library.c_str());
    note(*library_);
    library_->stay_open();
  }
  return library_;
}

const cuda::Driver& Context::driver() {
  if (driver_ == nullptr) driver_ = &open_driver(settings_);
  return *driver_;
}

void Context::leave(Group* group) {
  remove(group);
  std::erase_if(queue_, [group](const Turn& turn) { return turn.group == group; });
}

int Context::pump() {
  int moved = 0;
  while (!queue_.empty() && queue_.front().group->hand_over(queue_.front().request)) {
    queue_.pop_front();
    ++moved;
  }
  return moved;
}

int Context::progress() {
  int events = pump();
  for (Group* group : groups_) events += group->watch();
  const std::size_t before = ending_.size();
  std::erase_if(ending_, [](const auto& communicator) { return communicator->is_gone(); });
  return events + static_cast<int>(before - ending_.size());
}

bool Context::collective_supported(int collective, int dtype, int op, int memory_kind) {
  return memory_kind == RODA_MEMORY_CUDA && is_supported(probed_version.load(), collective, dtype, op);
}

}  // namespace roda::nccl

const roda_transport* roda_nccl_transport() {
  // The text is filled in by the probe, which knows the library.
  static const roda_transport table =
      roda::sdk::transport<roda::nccl::Context, roda::nccl::Group, roda::nccl::kCapabilities>(
          "nccl", roda::nccl::Context::description(), RODA_PROGRESS_POLL);
  return &table;
}
