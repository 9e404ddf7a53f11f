#include "core/control/control_plane.h"

#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

#include "plugins/base/log.h"

namespace roda::control {
namespace {

// How often a rank that never sleeps still looks at its descriptors.
constexpr auto kLook = std::chrono::milliseconds(2);

Status watch_fd(int poll, int fd, std::uint64_t data) {
  if (fd < 0) return {};
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = data;
  if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return Status::system(std::string("epoll_ctl failed: ") + std::strerror(errno));
}

// Hosts are numbered by their lowest rank, so rank 0's is host 0, and that host orders the log.
int host_of(const Topology& topology, int rank) { return topology.host_of[static_cast<std::size_t>(rank)]; }

std::vector<std::int32_t> leaders_of(const Topology& topology) {
  std::vector<std::int32_t> leaders(topology.hosts.size());
  for (int rank = 0; rank < topology.size; ++rank) {
    if (topology.local_rank_of[static_cast<std::size_t>(rank)] == 0) {
      leaders[static_cast<std::size_t>(host_of(topology, rank))] = rank;
    }
  }
  return leaders;
}

constexpr std::uint64_t kDoorbell = UINT64_MAX;
constexpr std::uint64_t kLinks = UINT64_MAX - 1;

}  // namespace

ControlPlane::ControlPlane(const Topology& topology, std::unique_ptr<HostSegment> segment)
    : topology_(topology), segment_(std::move(segment)), is_root_(host_of(topology, topology.rank) == 0) {}

ControlPlane::~ControlPlane() = default;

Status ControlPlane::connect(Store& store, const Topology& topology, const Options& options,
                             std::unique_ptr<ControlPlane>* out) {
  std::unique_ptr<HostSegment> segment;
  RODA_RETURN_IF_ERROR(
      HostSegment::form(store, options.key, topology.local_ranks, topology.rank, options.deadline, &segment));
  std::unique_ptr<ControlPlane> plane(new ControlPlane(topology, std::move(segment)));
  const std::vector<std::int32_t> leaders = leaders_of(topology);
  plane->spans_hosts_ = leaders.size() > 1;
  if (plane->spans_hosts_ && plane->segment_->local_rank() == 0) {
    const HostLinks::Options link_options{options.key, options.network_interface, options.secret, options.deadline,
                                          options.silence};
    RODA_RETURN_IF_ERROR(HostLinks::form(store, leaders, topology.rank, link_options, &plane->links_));
  }
  RODA_RETURN_IF_ERROR(plane->watch());
  *out = std::move(plane);
  return {};
}

Status ControlPlane::watch() {
  poll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!poll_) return Status::system(std::string("epoll_create1 failed: ") + std::strerror(errno));
  RODA_RETURN_IF_ERROR(watch_fd(poll_.get(), segment_->doorbell(), kDoorbell));
  for (int local = 0; local < segment_->size(); ++local) {
    RODA_RETURN_IF_ERROR(watch_fd(poll_.get(), segment_->process_fd(local), static_cast<std::uint64_t>(local)));
  }
  return links_ == nullptr ? Status() : watch_fd(poll_.get(), links_->fd(), kLinks);
}

Status ControlPlane::append_to_log(std::span<const std::byte> record, bool* accepted) {
  const bool orders = is_root_ || links_ != nullptr;
  LogRing& ring = orders ? segment_->log() : segment_->up();
  const LogRing::Append result = ring.append(record);
  *accepted = result == LogRing::Append::kDone;
  if (result == LogRing::Append::kTooLong) {
    return Status::unknown("a control record of " + std::to_string(record.size()) + " bytes exceeds the log's limit");
  }
  if (result == LogRing::Append::kFull) segment_->wake(orders ? static_cast<int>(ring.slowest_reader()) : 0);
  return {};
}

Status ControlPlane::append(std::span<const std::byte> record, bool* accepted) {
  if (!is_root_ && links_ != nullptr) {
    *accepted = true;
    return links_->send(record);
  }
  RODA_RETURN_IF_ERROR(append_to_log(record, accepted));
  const bool leader_carries_it_on = spans_hosts_ && segment_->local_rank() != 0;
  if (*accepted && leader_carries_it_on) segment_->wake(0);
  return {};
}

bool ControlPlane::read(std::vector<std::byte>* record) {
  if (!segment_->log().read(record)) return false;
  if (is_root_ && links_ != nullptr) {
    if (Status s = links_->send(*record); !s.ok()) abort(s);
  }
  return true;
}

// Records that arrived over the links go into this host's log; those of this host's ranks go out.
Status ControlPlane::forward() {
  std::vector<std::byte> record;
  while (!held_.empty() || links_->receive(&held_)) {
    bool accepted = false;
    RODA_RETURN_IF_ERROR(append_to_log(held_, &accepted));
    if (!accepted) break;
    held_.clear();
    segment_->wake_all();
  }
  while (!is_root_ && segment_->up().read(&record)) RODA_RETURN_IF_ERROR(links_->send(record));
  return {};
}

Status ControlPlane::note_deaths() {
  epoll_event events[16];
  const int n = epoll_wait(poll_.get(), events, 16, 0);
  for (int i = 0; i < n; ++i) {
    if (events[i].data.u64 >= kLinks) continue;
    const int local = static_cast<int>(events[i].data.u64);
    epoll_ctl(poll_.get(), EPOLL_CTL_DEL, segment_->process_fd(local), nullptr);
    if (segment_->departed(local)) continue;
    const std::int32_t rank = segment_->world_rank(local);
    const Status dead =
        Status::peer(rank, "Rank " + std::to_string(rank) + " (" +
                               topology_.hosts[static_cast<std::size_t>(host_of(topology_, rank))].hostname +
                               ") died: its process ended without hvd.shutdown(). Look at its output "
                               "for the cause.");
    abort(dead);
    return dead;
  }
  return {};
}

Status ControlPlane::service(bool thorough) {
  const auto now = std::chrono::steady_clock::now();
  Status status;
  if (thorough || now >= next_look_) {
    next_look_ = now + kLook;
    status = note_deaths();
  }
  if (links_ == nullptr) return status;
  Status abort_from_afar;
  if (status.ok()) status = links_->service(&abort_from_afar);
  if (status.ok() && abort_from_afar.ok()) status = forward();
  if (!abort_from_afar.ok()) {
    // The orderer passes it on to the other hosts; the others don't send it back.
    if (!is_root_) abort_sent_ = true;
    segment_->abort(abort_from_afar);
  } else if (!status.ok()) {
    abort(status);
  }
  tell_other_hosts();
  if (status.ok() && links_->unsent()) status = links_->service(&abort_from_afar);
  return status;
}

// The cause of an abort leaves this host before anything else can be heard of it, a goodbye for instance.
void ControlPlane::tell_other_hosts() {
  if (links_ == nullptr || abort_sent_ || !segment_->is_aborted()) return;
  abort_sent_ = true;
  Status ignored;
  if (links_->send_abort(segment_->abort_cause()).ok()) static_cast<void>(links_->service(&ignored));
}

void ControlPlane::arm() { segment_->arm(); }
void ControlPlane::disarm() { segment_->disarm(); }

bool ControlPlane::pending() const {
  if (segment_->log().pending()) return true;
  if (segment_->is_aborted()) return true;
  return links_ != nullptr && !is_root_ && segment_->up().pending();
}

void ControlPlane::abort(const Status& cause) { segment_->abort(cause); }

void ControlPlane::depart() {
  segment_->depart();
  tell_other_hosts();
  if (links_ != nullptr) links_->depart();
}

}  // namespace roda::control
