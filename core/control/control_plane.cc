#include "core/control/control_plane.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "algorithms/topology/host_tree.h"
#include "core/control/host_links.h"
#include "plugins/base/invariant.h"
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
  return Status::of_errno("epoll_ctl");
}

std::vector<std::int32_t> leaders_of(const Topology& topology) {
  std::vector<std::int32_t> leaders(topology.hosts.size());
  for (int rank = 0; rank < topology.size(); ++rank) {
    const topology::Numbers& numbers = topology.rank(rank);
    if (numbers.local_rank == 0) leaders[static_cast<std::size_t>(numbers.host)] = rank;
  }
  return leaders;
}

// The ranks of the host and of the hosts below it in the tree.
wire::RankRanges ranks_below(const Topology& topology, int host, int fan_out) {
  const topology::HostPlace place = topology::place_of(host, static_cast<int>(topology.hosts.size()), fan_out);
  wire::RankRanges below;
  for (int rank = 0; rank < topology.size(); ++rank) {
    const int of = topology.rank(rank).host;
    if (of >= host && of < place.end) below.add(rank, rank);
  }
  return below;
}

std::vector<std::int32_t> leaders_above(const Topology& topology, int rank, const std::vector<std::int32_t>& leaders,
                                        int fan_out) {
  std::vector<std::int32_t> way;
  if (leaders.size() == 1) return way;
  const int hosts = static_cast<int>(leaders.size());
  for (int host = topology.rank(rank).host; host >= 0; host = topology::place_of(host, hosts, fan_out).parent) {
    const std::int32_t leader = leaders[static_cast<std::size_t>(host)];
    if (leader != rank) way.push_back(leader);
  }
  return way;
}

constexpr std::uint64_t kDoorbell = UINT64_MAX;
constexpr std::uint64_t kLinks = UINT64_MAX - 1;
constexpr std::uint64_t kTimer = UINT64_MAX - 2;

}  // namespace

// Hosts are numbered by their lowest rank, so rank 0's is host 0, and that host orders the log.
ControlPlane::ControlPlane(std::string host_name, bool is_root, std::unique_ptr<HostSegment> segment)
    : host_name_(std::move(host_name)), segment_(std::move(segment)), is_root_(is_root) {}

ControlPlane::~ControlPlane() = default;

Status ControlPlane::connect(Store& store, const Topology& topology, int rank, const Membership& membership,
                             std::unique_ptr<ControlPlane>* out) {
  const int host = topology.rank(rank).host;
  std::string hosts;
  for (const topology::Host& each : topology.hosts) hosts += (hosts.empty() ? "" : " ") + each.name;
  std::unique_ptr<HostSegment> segment;
  RODA_RETURN_IF_ERROR(HostSegment::form(store, membership.key, topology.neighbours(rank), rank, std::move(hosts),
                                         membership.deadline, &segment));
  std::unique_ptr<ControlPlane> plane(new ControlPlane(topology.host_of(rank).name, host == 0, std::move(segment)));
  const std::vector<std::int32_t> leaders = leaders_of(topology);
  plane->spans_hosts_ = leaders.size() > 1;
  plane->way_up_ = leaders_above(topology, rank, leaders, membership.fan_out);
  if (plane->spans_hosts_ && plane->segment_->local_rank() == 0) {
    RODA_RETURN_IF_ERROR(HostLinks::form(store, leaders, rank, membership, &plane->links_));
    plane->combiner_ =
        std::make_unique<wire::Combiner>(ranks_below(topology, host, membership.fan_out), membership.cache_capacity);
  }
  RODA_RETURN_IF_ERROR(plane->watch());
  *out = std::move(plane);
  return {};
}

std::vector<std::span<std::byte>> ControlPlane::rooms() const {
  std::vector<std::span<std::byte>> all;
  for (int local = 0; local < segment_->size(); ++local) all.push_back(segment_->room(local));
  return all;
}

Status ControlPlane::watch() {
  poll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!poll_) return Status::of_errno("epoll_create1");
  RODA_RETURN_IF_ERROR(watch_fd(poll_.get(), segment_->doorbell(), kDoorbell));
  for (int local = 0; local < segment_->size(); ++local) {
    const auto number = static_cast<std::uint64_t>(local);
    RODA_RETURN_IF_ERROR(watch_fd(poll_.get(), segment_->process_fd(local), number));
    RODA_RETURN_IF_ERROR(watch_fd(poll_.get(), segment_->presence_fd(local), number));
  }
  if (links_ == nullptr) return {};
  timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_) return Status::of_errno("timerfd_create");
  RODA_RETURN_IF_ERROR(watch_fd(poll_.get(), timer_.get(), kTimer));
  return watch_fd(poll_.get(), links_->fd(), kLinks);
}

void ControlPlane::arm() {
  segment_->arm();
  let_links_ring(true);
}

void ControlPlane::disarm() {
  segment_->disarm();
  let_links_ring(false);
}

// Where somebody is awake and reads, what comes would wake another thread for nothing.
void ControlPlane::let_links_ring(bool on) {
  if (links_ == nullptr || links_ring_ == on) return;
  links_ring_ = on;
  epoll_event event{};
  event.events = on ? static_cast<std::uint32_t>(EPOLLIN) : 0u;
  event.data.u64 = kLinks;
  epoll_ctl(poll_.get(), EPOLL_CTL_MOD, links_->fd(), &event);
}

Status ControlPlane::append_to(LogRing& ring, std::span<const std::byte> record, bool* accepted) {
  const LogRing::Append result = ring.append(record);
  *accepted = result == LogRing::Append::kDone;
  if (result == LogRing::Append::kTooLong) {
    return Status::unknown("a control record of " + std::to_string(record.size()) + " bytes exceeds the log's limit");
  }
  if (result == LogRing::Append::kFull) segment_->wake(static_cast<int>(ring.slowest_reader()));
  return {};
}

Status ControlPlane::append(std::span<const std::byte> record) {
  RODA_INVARIANT(record.size() >= sizeof(wire::RecordHeader), "a record has a header");
  if (record.size() > wire::kMostRecordBytes) {
    for (auto& part : wire::split(record)) unsent_.push_back(std::move(part));
    return send_unsent();
  }
  bool accepted = false;
  if (unsent_.empty()) RODA_RETURN_IF_ERROR(say(record, &accepted));
  if (!accepted) unsent_.emplace_back(record.begin(), record.end());
  return {};
}

Status ControlPlane::say(std::span<const std::byte> record, bool* accepted) {
  if (combiner_ != nullptr) {
    *accepted = true;
    combiner_->take(record, wire::Combiner::Clock::now());
    return set_timer();
  }
  if (!spans_hosts_) return append_to(segment_->log(), record, accepted);
  RODA_INVARIANT(segment_->local_rank() != 0, "the leader of a host speaks to itself through its combiner");
  RODA_RETURN_IF_ERROR(append_to(segment_->up(), record, accepted));
  if (*accepted) segment_->wake(0);
  return {};
}

Status ControlPlane::send_unsent() {
  for (bool accepted = true; accepted && !unsent_.empty();) {
    RODA_RETURN_IF_ERROR(say(unsent_.front(), &accepted));
    RODA_INVARIANT(unsent_.front().size() <= wire::kMostRecordBytes, "what waits for room fits into a record");
    if (accepted) unsent_.pop_front();
  }
  return {};
}

bool ControlPlane::read(std::vector<std::byte>* record) { return segment_->log().read(record); }

// The next record of the log, on its way down: into the log of this host, and to the hosts below.
Status ControlPlane::spread(std::span<const std::byte> record, bool* accepted) {
  RODA_RETURN_IF_ERROR(append_to(segment_->log(), record, accepted));
  if (!*accepted) return {};
  RODA_INVARIANT(links_ != nullptr, "a leader alone spreads the log");
  segment_->wake_all();
  links_->send_down(record);
  return {};
}

// Records from above go down; records of this host's ranks and of the hosts below are combined and go up, at the root
// into the log.
Status ControlPlane::forward() {
  bool accepted = true;
  if (!held_.empty()) RODA_RETURN_IF_ERROR(spread(held_, &accepted));
  if (!accepted) return {};
  held_.clear();
  const auto now = wire::Combiner::Clock::now();
  std::vector<std::byte> record;
  for (bool from_above = false; accepted && links_->receive(&record, &from_above);) {
    if (!from_above) {
      combiner_->take(record, now);
      continue;
    }
    RODA_RETURN_IF_ERROR(spread(record, &accepted));
    if (!accepted) held_.swap(record);
  }
  while (segment_->up().read(&record)) combiner_->take(record, now);
  while (accepted && combiner_->next(now, &record)) {
    if (is_root_) {
      RODA_RETURN_IF_ERROR(spread(record, &accepted));
      if (!accepted) held_.swap(record);
    } else {
      links_->send_up(record);
    }
  }
  RODA_INVARIANT(accepted == held_.empty(), "a record that the log did not take is held");
  return set_timer();
}

Status ControlPlane::look() {
  epoll_event events[16];
  const int n = epoll_wait(poll_.get(), events, 16, 0);
  for (int i = 0; i < n; ++i) {
    if (events[i].data.u64 == kTimer) {
      std::uint64_t rings = 0;
      [[maybe_unused]] const ssize_t got = ::read(timer_.get(), &rings, sizeof rings);
      timer_due_ = std::chrono::steady_clock::time_point::max();
    }
    if (events[i].data.u64 >= kTimer) continue;
    const int local = static_cast<int>(events[i].data.u64);
    epoll_ctl(poll_.get(), EPOLL_CTL_DEL, segment_->process_fd(local), nullptr);
    epoll_ctl(poll_.get(), EPOLL_CTL_DEL, segment_->presence_fd(local), nullptr);
    if (segment_->departed(local)) continue;
    const std::int32_t rank = segment_->world_rank(local);
    const Status dead =
        Status::peer(rank, "Rank " + std::to_string(rank) + " (" + host_name_ + ") " + segment_->how_it_ended(local));
    abort(dead);
    return dead;
  }
  return {};
}

Status ControlPlane::service(bool thorough, CoarseClock::time_point now) {
  Status status;
  if (thorough || now >= next_look_) {
    next_look_ = now + kLook;
    status = look();
  }
  if (status.ok() && !unsent_.empty() && !is_aborted()) status = send_unsent();
  if (links_ == nullptr) {
    if (!status.ok()) abort(status);
    return status;
  }
  if (status.ok()) status = move_links();
  if (status.ok() && !is_aborted()) status = forward();
  if (!status.ok()) abort(status);
  tell_other_hosts();
  if (!status.ok() || !links_->unsent()) return status;
  status = move_links();
  tell_other_hosts();
  return status;
}

bool ControlPlane::has_failed() const {
  if (segment_->is_aborted() || (links_ != nullptr && links_->has_hung_up())) return true;
  for (int local = 0; local < segment_->size(); ++local) {
    const bool is_gone = segment_->has_ended(local) || segment_->is_absent(local);
    if (is_gone && !segment_->departed(local)) return true;
  }
  return false;
}

// An abort that another host tells of, and a link that broke, end the job here.
Status ControlPlane::move_links() {
  Status from_afar;
  const Status status = links_->service(&from_afar);
  if (!from_afar.ok()) {
    segment_->abort(from_afar);
    return {};
  }
  if (!status.ok()) abort(status);
  return status;
}

// The cause of an abort leaves this host before anything else can be heard of it, a goodbye for instance.
void ControlPlane::tell_other_hosts() {
  if (links_ == nullptr || abort_sent_ || !segment_->is_aborted()) return;
  abort_sent_ = true;
  Status ignored;
  links_->send_abort(segment_->abort_cause());
  static_cast<void>(links_->service(&ignored));
}

bool ControlPlane::pending() const {
  if (segment_->log().pending()) return true;
  if (segment_->is_aborted()) return true;
  // Nothing is passed on before the log has room: holds_record() says so.
  if (links_ == nullptr || !held_.empty()) return false;
  // Records that came over the links while they sent are passed on by the next service().
  return links_->has_arrived() || segment_->up().pending() || combiner_->deadline() <= wire::Combiner::Clock::now();
}

// Sets the timer for the combiner's deadline. The timer may ring too early for what is held by then, and is set again.
Status ControlPlane::set_timer() {
  const auto due = combiner_->deadline();
  if (due >= timer_due_) return {};
  const auto now = wire::Combiner::Clock::now();
  if (due <= now) return {};  // pending() says so: nobody goes to sleep
  const auto left = due - now;
  itimerspec when{};
  when.it_value.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count();
  when.it_value.tv_nsec = std::chrono::nanoseconds(left % std::chrono::seconds(1)).count();
  if (timerfd_settime(timer_.get(), 0, &when, nullptr) != 0) return Status::of_errno("timerfd_settime");
  timer_due_ = due;
  return {};
}

std::optional<bool> ControlPlane::await_process_end(std::int32_t rank, std::int64_t limit_us) const {
  for (int local = 0; local < segment_->size(); ++local) {
    if (segment_->world_rank(local) != rank || local == segment_->local_rank()) continue;
    pollfd ends{segment_->process_fd(local), POLLIN, 0};
    return ::poll(&ends, 1, static_cast<int>(std::min<std::int64_t>(limit_us / 1000, INT_MAX))) > 0;
  }
  return std::nullopt;
}

void ControlPlane::depart() {
  segment_->depart();
  tell_other_hosts();
  if (links_ != nullptr) links_->depart();
}

}  // namespace roda::control
