#include "core/control/host_segment.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <thread>
#include <utility>

#include "core/wire/record.h"
#include "plugins/base/invariant.h"
#include "plugins/base/wait_policy.h"

namespace roda::control {
namespace {

constexpr std::chrono::seconds kToldWithin{1};
constexpr std::uint32_t kAttemptsPerLook = 20;  // at a peer's mailbox: the store is asked seldom

constexpr std::uint32_t kLogCells = 8192;  // 1 MiB
constexpr std::uint32_t kUpCells = 2048;
static_assert(LogRing::max_record(std::min(kLogCells, kUpCells)) >= wire::kMostRecordBytes);
constexpr char kLabel[] = "roda-control";  // in /proc/PID/maps
constexpr int kLastOfAnEndMs = 1000;
constexpr std::uint32_t kNoAbort = 0;
constexpr std::uint32_t kAborted = 1;
constexpr std::uint64_t kMailTag = 0x726f646163746cu;

// What a peer's message says besides its descriptors. The nonce comes from the leader through the authenticated store:
// who knows it is a rank of this job, not merely a process of the same user.
struct Mail {
  std::uint64_t nonce;
  std::int64_t local_rank;
};

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

Status timed_out(std::int32_t rank, const char* what) {
  return {RODA_ERR_TIMEOUT,
          "Timed out waiting for rank " + std::to_string(rank) + " of this host " + what +
              "; raise HOROVOD_GLOO_TIMEOUT_SECONDS if the processes start slowly",
          rank};
}

}  // namespace

struct alignas(64) HostSegment::RankCell {
  alignas(64) std::atomic<std::uint32_t> sleeping;
  alignas(64) std::atomic<int> core;  // 1 + the number of the core that the rank was on; 0: it sleeps
  alignas(64) std::atomic<std::uint32_t> attached;
  std::atomic<std::uint32_t> departed;
};

struct HostSegment::Header {
  std::uint64_t nonce;
  // For tools.
  char rooms_tag[8];
  std::uint64_t rooms_offset;
  std::uint64_t room_bytes;
  std::uint64_t rooms;
  std::uint64_t hosts_offset;
  std::uint64_t hosts_bytes;
  // The first error: kNoAbort, kAborted, or above that who writes it: kAborted + 1 + the local rank.
  alignas(64) std::atomic<std::uint32_t> abort_state;
  std::int32_t code;
  std::int32_t rank;
  char message[2048];
};

HostSegment::HostSegment(std::vector<std::int32_t> ranks, int local_rank, std::string hosts)
    : ranks_(std::move(ranks)),
      local_rank_(local_rank),
      hosts_(std::move(hosts)),
      doorbells_(ranks_.size()),
      processes_(ranks_.size()),
      presences_(ranks_.size()),
      pids_(ranks_.size()) {}

HostSegment::RankCell& HostSegment::cell(int local) const {
  auto* cells = reinterpret_cast<RankCell*>(segment_.data() + aligned(sizeof(Header)));
  return cells[local];
}

std::size_t HostSegment::log_offset() const { return aligned(sizeof(Header)) + ranks_.size() * sizeof(RankCell); }

std::size_t HostSegment::up_offset() const {
  return log_offset() + LogRing::bytes_for(kLogCells, static_cast<std::uint32_t>(ranks_.size()));
}

std::size_t HostSegment::rooms_offset() const { return aligned(up_offset() + LogRing::bytes_for(kUpCells, 1)); }

std::span<std::byte> HostSegment::room(int local) const {
  return {segment_.data() + rooms_offset() + static_cast<std::size_t>(local) * kRoomBytes, kRoomBytes};
}

Status HostSegment::create_segment() {
  const std::size_t bytes = total_bytes();
  RODA_RETURN_IF_ERROR(SharedSegment::create(kLabel, bytes, &segment_));
  RODA_RETURN_IF_ERROR(segment_.reserve(0, bytes));
  auto* header = new (segment_.data()) Header{};
  if (getrandom(&header->nonce, sizeof header->nonce, 0) != sizeof header->nonce) return Status::of_errno("getrandom");
  LogRing::format(segment_.data() + log_offset(), kLogCells, static_cast<std::uint32_t>(ranks_.size()));
  LogRing::format(segment_.data() + up_offset(), kUpCells, 1);
  std::memcpy(header->rooms_tag, "rodaroom", sizeof header->rooms_tag);
  header->rooms_offset = rooms_offset();
  header->room_bytes = kRoomBytes;
  header->rooms = ranks_.size();
  header->hosts_offset = hosts_offset();
  header->hosts_bytes = hosts_.size();
  std::memcpy(segment_.data() + hosts_offset(), hosts_.data(), hosts_.size());
  return {};
}

void HostSegment::layout() {
  header_ = reinterpret_cast<Header*>(segment_.data());
  log_ = LogRing(segment_.data() + log_offset(), static_cast<std::uint32_t>(local_rank_));
  up_ = LogRing(segment_.data() + up_offset(), 0);
}

Status HostSegment::form(Store& store, const std::string& key, const std::vector<std::int32_t>& ranks,
                         std::int32_t self, std::string hosts, Deadline deadline, std::unique_ptr<HostSegment>* out) {
  const auto at = std::ranges::find(ranks, self);
  std::unique_ptr<HostSegment> segment(new HostSegment(ranks, static_cast<int>(at - ranks.begin()), std::move(hosts)));
  RODA_RETURN_IF_ERROR(segment->open_own());
  if (segment->local_rank_ == 0) RODA_RETURN_IF_ERROR(segment->create_segment());
  if (segment->size() > 1) RODA_RETURN_IF_ERROR(segment->exchange(store, key, deadline));
  segment->layout();
  segment->cell(segment->local_rank_).attached.store(1, std::memory_order_release);
  RODA_RETURN_IF_ERROR(segment->wait_for_all(store, key, deadline));
  *out = std::move(segment);
  return {};
}

Status HostSegment::open_own() {
  const auto self = static_cast<std::size_t>(local_rank_);
  doorbells_[self].reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!doorbells_[self]) return Status::of_errno("eventfd");
  if (size() == 1) return {};
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return Status::of_errno("pipe2");
  presences_[self].reset(ends[0]);
  present_.reset(ends[1]);
  present_guard_ = ForkGuard(present_.get());
  return {};
}

// Everybody learns everybody's mailbox from the store and gives its descriptors; the leader's message carries the
// segment.
Status HostSegment::exchange(Store& store, const std::string& key, Deadline deadline) {
  FdExchange exchange;
  RODA_RETURN_IF_ERROR(FdExchange::open(local_rank_, size(), &exchange));
  const std::string base = key + "/host/" + std::to_string(ranks_[0]) + "/";
  RODA_RETURN_IF_ERROR(store.give(base + "mailbox", local_rank_, exchange.address()));
  std::string nonce;
  if (local_rank_ == 0) {
    nonce.assign(reinterpret_cast<const char*>(segment_.data() + offsetof(Header, nonce)), sizeof(Header::nonce));
    RODA_RETURN_IF_ERROR(store.put(base + "nonce", nonce));
  } else {
    RODA_RETURN_IF_ERROR(store.wait(base + "nonce", deadline, &nonce));
    if (nonce.size() != sizeof nonce_) return Status::unknown("the leader of this host published a malformed nonce");
  }
  std::memcpy(&nonce_, nonce.data(), sizeof nonce_);
  std::vector<std::string> addresses;
  const Status status = store.wait_all(base + "mailbox", size(), deadline, &addresses);
  if (status.code() == RODA_ERR_TIMEOUT && status.rank() < 0) {
    const int silent = store.first_missing(base + "mailbox", size());
    return silent < 0 ? status : timed_out(world_rank(silent), "to say where it can be reached");
  }
  RODA_RETURN_IF_ERROR(status);
  const Mail mail{nonce_, local_rank_};
  std::vector<int> fds{doorbell(), presence_fd(local_rank_)};
  if (local_rank_ == 0) fds.push_back(segment_.fd());
  const FdExchange::Own own{kMailTag, std::as_bytes(std::span(&mail, 1)), fds};
  const auto address_of = [&](int member) { return addresses[static_cast<std::size_t>(member)]; };
  const auto take_mail = [&](FdMailbox::Message message, int* member) { return take(std::move(message), member); };
  for (std::uint32_t in_vain = 0;;) {
    int gone = -1;
    const int given = exchange.given();
    const Status stepped = exchange.step(own, address_of, take_mail, &gone);
    if (gone >= 0) return left(gone, store, key);
    RODA_RETURN_IF_ERROR(stepped);
    if (exchange.is_over()) break;
    in_vain = exchange.given() == given ? in_vain + 1 : 0;
    const bool shall_look = !exchange.holds() || in_vain % kAttemptsPerLook == kAttemptsPerLook - 1;
    if (shall_look) RODA_RETURN_IF_ERROR(look_for_failures(store, key));
    if (std::chrono::steady_clock::now() > deadline) {
      return timed_out(world_rank(exchange.waits_for()), "to exchange descriptors");
    }
    pollfd p{exchange.fd(), POLLIN, 0};
    ::poll(&p, 1, exchange.holds() ? WaitPolicy::look_ms(in_vain) : 100);
  }
  presences_[static_cast<std::size_t>(local_rank_)].reset();  // of the others from here on
  return {};
}

// A rank whose mailbox is gone has failed, and tells the store why a moment later, or its process has ended.
Status HostSegment::left(int peer, Store& store, const std::string& key) const {
  const auto until = std::chrono::steady_clock::now() + kToldWithin;
  do {
    RODA_RETURN_IF_ERROR(look_for_failures(store, key));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  } while (std::chrono::steady_clock::now() < until);
  const std::int32_t rank = world_rank(peer);
  return Status::peer(rank, "Rank " + std::to_string(rank) + " ended while the job was starting");
}

// A message that is none of this job's is no error.
Status HostSegment::take(FdMailbox::Message message, int* member) {
  Mail mail;
  if (message.payload.size() != sizeof mail) return {};
  std::memcpy(&mail, message.payload.data(), sizeof mail);
  if (mail.nonce != nonce_ || mail.local_rank < 0 || mail.local_rank >= size()) return {};
  const auto peer = static_cast<std::size_t>(mail.local_rank);
  if (message.fds.size() != (peer == 0 ? 3u : 2u)) return {};
  if (doorbells_[peer]) return Status::precondition("Rank " + std::to_string(ranks_[peer]) + " was started twice");
  *member = mail.local_rank;
  doorbells_[peer] = std::move(message.fds[0]);
  presences_[peer] = std::move(message.fds[1]);
  if (peer == 0) {
    RODA_RETURN_IF_ERROR(SharedSegment::attach(std::move(message.fds[2]), total_bytes(), &segment_));
    if (reinterpret_cast<Header*>(segment_.data())->nonce != nonce_) {
      return Status::precondition("The shared memory that rank " + std::to_string(ranks_[0]) +
                                  " passed is not the memory it wrote to; set HOROVOD_HOSTNAME to different names if "
                                  "the ranks do not share a machine");
    }
  }
  pids_[peer] = message.sender;
  if (message.sender > 0) {
    processes_[peer].reset(static_cast<int>(syscall(SYS_pidfd_open, message.sender, 0)));
    if (!processes_[peer] && errno == ESRCH) {
      return Status::peer(ranks_[peer], "Rank " + std::to_string(ranks_[peer]) + " died while the job was starting");
    }
  }
  return {};
}

Status HostSegment::wait_for_all(Store& store, const std::string& key, Deadline deadline) {
  for (int local = 0; local < size(); ++local) {
    for (std::uint32_t looks = 0; cell(local).attached.load(std::memory_order_acquire) == 0; ++looks) {
      RODA_RETURN_IF_ERROR(look_for_failures(store, key));
      if (std::chrono::steady_clock::now() > deadline) {
        return timed_out(world_rank(local), "to map the host's shared memory");
      }
      pollfd ends[] = {{process_fd(local), POLLIN, 0}, {presence_fd(local), 0, 0}};
      if (::poll(ends, 2, WaitPolicy::look_ms(looks)) > 0) {
        return Status::peer(world_rank(local),
                            "Rank " + std::to_string(world_rank(local)) + " died while the job was starting");
      }
    }
  }
  return {};
}

bool HostSegment::shares_core() {
  const int here = sched_getcpu() + 1;
  if (here != core_) cell(local_rank_).core.store(here, std::memory_order_relaxed);
  core_ = here;
  if (here == 0) return false;  // not to be known
  for (int local = 0; local < size(); ++local) {
    if (local != local_rank_ && cell(local).core.load(std::memory_order_relaxed) == here) return true;
  }
  return false;
}

void HostSegment::arm() {
  disarm();
  if (std::exchange(core_, 0) != 0) cell(local_rank_).core.store(0, std::memory_order_relaxed);
  if (std::exchange(rung_, false)) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = read(doorbell(), &count, sizeof count);
  }
  cell(local_rank_).sleeping.store(1, std::memory_order_seq_cst);
  armed_ = true;
  // The caller looks at the rings after this. Either it sees a record, or the record's writer, who fences between
  // writing and looking, sees that this rank sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void HostSegment::disarm() {
  // Zero already: somebody took the flag and rings, or has rung.
  auto& sleeping = cell(local_rank_).sleeping;
  if (armed_ && sleeping.exchange(0, std::memory_order_seq_cst) == 0) rung_ = true;
  armed_ = false;
}

void HostSegment::ring(int local) {
  const std::uint64_t one = 1;
  // A full counter is a bell that rings already.
  [[maybe_unused]] const ssize_t n = write(doorbells_[static_cast<std::size_t>(local)].get(), &one, sizeof one);
}

void HostSegment::wake(int local) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  auto& sleeping = cell(local).sleeping;
  if (sleeping.load(std::memory_order_relaxed) != 0 && sleeping.exchange(0, std::memory_order_seq_cst) != 0)
    ring(local);
}

void HostSegment::wake_all() {
  for (int local = 0; local < size(); ++local) {
    if (local != local_rank_) wake(local);
  }
}

void HostSegment::depart() { cell(local_rank_).departed.store(1, std::memory_order_release); }

bool HostSegment::departed(int local) const { return cell(local).departed.load(std::memory_order_acquire) != 0; }

// A process that ends gives up its memory before its descriptors, and one that becomes another program gets new memory
// before: what /proc shows now is what is true.
std::string HostSegment::how_it_ended(int local) const {
  const std::string process = "/proc/" + std::to_string(pids_[static_cast<std::size_t>(local)]);
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink(process + "/exe", error);
  std::ifstream maps(process + "/maps");
  bool maps_segment = false, maps_anything = false;
  for (std::string line; !error && !maps_segment && std::getline(maps, line); maps_anything = true) {
    maps_segment = line.find(kLabel) != std::string::npos;
  }
  if (has_ended(local) || !maps_anything)  // its number may be another process's by now
    return "died: its process ended without hvd.shutdown(). Look at its output for the cause.";
  const std::string pid = process.substr(sizeof "/proc/" - 1);
  if (maps_segment) {
    return "is lost: its process " + pid +
           " closed the descriptors that connect it to the other ranks (os.closerange, "
           "or a start as a daemon). Call hvd.shutdown() first, or close only what the program opened.";
  }
  return "is lost: its process " + pid + " runs another program now, " + program.string() +
         ", without hvd.shutdown(). Start other programs in processes of their own (subprocess), or call "
         "hvd.shutdown() before os.exec*.";
}

// Whose process ended while it wrote its cause leaves the writing to others, of whom one takes it over.
void HostSegment::abort(const Status& cause) {
  const std::uint32_t mine = kAborted + 1 + static_cast<std::uint32_t>(local_rank_);
  std::uint32_t seen = kNoAbort;
  while (!header_->abort_state.compare_exchange_strong(seen, mine)) {
    if (seen == kAborted) return;
    // Who is absent has mostly ended but for the last of it.
    const int writer = static_cast<int>(seen - kAborted) - 1;
    RODA_INVARIANT(writer >= 0 && writer < size(), "a rank of this host writes why the job is aborted");
    if (!has_ended(writer, is_absent(writer) ? kLastOfAnEndMs : 0)) return;
  }
  RODA_INVARIANT(!cause.ok(), "a job that is aborted has a cause");
  header_->code = cause.code();
  header_->rank = cause.rank();
  std::snprintf(header_->message, sizeof header_->message, "%s", cause.message().c_str());
  header_->abort_state.store(kAborted, std::memory_order_seq_cst);
  for (int local = 0; local < size(); ++local) ring(local);
}

bool HostSegment::is_aborted() const { return header_->abort_state.load(std::memory_order_acquire) == kAborted; }

bool HostSegment::has_ended(int local, int limit_ms) const {
  pollfd process{process_fd(local), POLLIN, 0};
  return process.fd >= 0 && ::poll(&process, 1, limit_ms) > 0;
}

bool HostSegment::is_absent(int local) const {
  pollfd presence{presence_fd(local), 0, 0};
  return presence.fd >= 0 && ::poll(&presence, 1, 0) > 0;
}

Status HostSegment::abort_cause() const {
  if (!is_aborted()) return {};
  return {header_->code, std::string(header_->message, strnlen(header_->message, sizeof header_->message)),
          header_->rank};
}

}  // namespace roda::control
