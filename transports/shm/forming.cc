// How a group comes together: cards by the exchange, then segments and doorbells by mailbox.
//
// The card carries a random number that is also in the segment, so a segment that came over the mailbox is used only if
// it is the one that the member announced through the exchange, which the job authenticates.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "plugins/base/process_limits.h"
#include "transports/shm/group.h"
#include "transports/shm/segment.h"

namespace roda::shm {

namespace {

constexpr std::uint64_t kHelloTag = 1;
constexpr std::size_t kMostHeap = std::size_t{64} << 30;  // address space, not memory

std::size_t physical_memory() {
  struct sysinfo info {};
  return ::sysinfo(&info) == 0 ? static_cast<std::size_t>(info.totalram) * info.mem_unit : std::size_t{1} << 30;
}

// The pages before the heap. A memfd is bounded by the machine's memory only, and pages of rings that nobody uses are
// never taken. A file system is shared with the other ranks: nobody takes more than leaves as much again for the heaps
// when all have come, unless it can't be less.
Status take_pages(SharedSegment& segment, std::size_t bytes, std::size_t ranks, bool is_least) {
  if (segment.is_memfd()) return {};
  struct statvfs info {};
  const bool known = ::fstatvfs(segment.fd(), &info) == 0 && info.f_blocks > 0;
  if (known && !is_least && bytes > info.f_bavail * info.f_frsize / (2 * ranks)) {
    return Status::no_memory("rings of this size would fill /dev/shm");
  }
  return segment.reserve(0, bytes);
}

}  // namespace

Group::Group(Context& context, const roda_group_desc& desc)
    : context_(context),
      state_("shm", desc),
      peers_(static_cast<std::size_t>(state_.size())),
      messages_(*this),
      store_cost_(state_.rank(), state_.size()) {
  if (!context.in_owner()) throw sdk::Failure(RODA_ERR_INVALID, "shm: a forked child can't use its parent's transport");
  for (int i = 0; i < state_.size(); ++i) {
    peer(i).group = this;
    peer(i).rank = i;
  }
  if (::getrandom(&nonce_, sizeof nonce_, 0) != sizeof nonce_) {
    throw sdk::Failure(RODA_ERR_SYSTEM, "shm: getrandom gave too few bytes");
  }
  sdk::expect_ok(FdExchange::open(state_.rank(), state_.size(), &hellos_), "shm");
  mailbox_guard_ = ForkGuard(hellos_.fd());
  Card card{kMagic, kLayoutVersion, state_.rank(), nonce_, {}, room_for_group()};
  std::strncpy(card.mailbox, hellos_.address().c_str(), sizeof card.mailbox - 1);
  cards_ = state_.gather("shm.card", &card, sizeof card);
  context_.watch(hellos_.fd(), nullptr);
  context_.add(this);
}

// Every member maps the segments of all: the one with the least address space counts.
std::uint64_t Group::most_of_a_segment() const {
  std::uint64_t most = largest_file();
  for (const Peer& peer : peers_) {
    const std::uint64_t room = card_of(peer.rank).room;
    if (peer.rank == state_.rank()) check_room(state_.size(), room);
    if (room < Layout::least_bytes(state_.size()) * peers_.size()) {
      throw state_.fault(RODA_ERR_UNAVAILABLE, peer.rank,
                         "can't spare address space for the shared memory of another group of " +
                             std::to_string(state_.size()) + " ranks (RLIMIT_AS, `ulimit -v`): raise that limit");
    }
    most = std::min(most, room / peers_.size());
  }
  return most;
}

// Rings and heap shrink until they fit: a small /dev/shm, or limits of the processes.
void Group::create_segment() {
  const Settings& settings = context_.settings();
  const std::uint64_t most = most_of_a_segment();
  std::uint32_t ring_bytes = settings.ring_bytes;
  std::size_t heap_bytes = std::min(kMostHeap, physical_memory());
  for (;;) {
    const Layout layout(state_.size(), ring_bytes);
    if (layout.heap + Layout::kLeastHeap > most && ring_bytes > Layout::kLeastRing) {
      ring_bytes /= 2;
      continue;
    }
    heap_bytes = Layout::round_up(std::min<std::uint64_t>(heap_bytes, most - layout.heap), std::size_t{2} << 20);
    if (layout.heap + heap_bytes > most) heap_bytes -= std::size_t{2} << 20;
    Status status = SharedSegment::create("roda-shm", layout.heap + heap_bytes, &segment_, settings.force_posix);
    if (!status.ok() && heap_bytes > (std::size_t{64} << 20)) {
      heap_bytes /= 2;
      continue;
    }
    sdk::expect_ok(status, "shm");
    const bool is_least = ring_bytes <= Layout::kLeastRing;
    status = take_pages(segment_, layout.rings + peers_.size() * ring_bytes, peers_.size(), is_least);
    if (!status.ok() && !is_least) {
      ring_bytes /= 2;
      continue;
    }
    sdk::expect_ok(status, "shm");
    fill_segment(layout, ring_bytes, heap_bytes);
    return;
  }
}

void Group::fill_segment(const Layout& layout, std::uint32_t ring_bytes, std::size_t heap_bytes) {
  heap_offset_ = layout.heap;
  heap_ = Heap(layout.heap, heap_bytes);
  (void)::madvise(segment_.data() + layout.heap, heap_bytes, MADV_HUGEPAGE);  // a wish
  auto made = new (segment_.data()) SegmentHeader{};
  made->magic = kMagic;
  made->version = kLayoutVersion;
  made->rank = state_.rank();
  made->size = state_.size();
  made->ring_bytes = ring_bytes;
  made->heap_offset = layout.heap;
  made->nonce = nonce_;
  own_windows_ = reinterpret_cast<WindowEntry*>(segment_.data() + layout.windows);
  segment_guard_ = ForkGuard(segment_.fd());
}

void Group::connect_self() {
  Peer& self = peer(state_.rank());
  self.pid = ::getpid();
  self.bell.reset(::fcntl(context_.bell_fd(), F_DUPFD_CLOEXEC, 0));
  self.bell_guard = ForkGuard(self.bell.get());
  attach(self, segment_.data(), segment_.size());
  self.cma = context_.settings().cma;
}

// Finds our places in a member's segment and its places in ours.
void Group::attach(Peer& peer, std::byte* base, std::size_t bytes) {
  auto& theirs = *reinterpret_cast<SegmentHeader*>(base);
  if (theirs.magic != kMagic || theirs.version != kLayoutVersion || theirs.rank != peer.rank ||
      theirs.size != state_.size() || theirs.ring_bytes < 4096 || theirs.ring_bytes > bytes ||
      Layout(state_.size(), theirs.ring_bytes).heap > bytes) {
    throw state_.other_version(peer.rank);
  }
  const Layout there(state_.size(), theirs.ring_bytes), here(state_.size(), header().ring_bytes);
  const auto me = static_cast<std::size_t>(state_.rank()), it = static_cast<std::size_t>(peer.rank);
  std::byte* own = segment_.data();
  peer.base = base;
  peer.segment_bytes = bytes;
  peer.header = &theirs;
  peer.signals_out = reinterpret_cast<SignalLines*>(base + there.signals)[me].value;
  peer.signals_in = reinterpret_cast<SignalLines*>(own + here.signals)[it].value;
  peer.windows = reinterpret_cast<WindowEntry*>(base + there.windows);
  store_cost_.attach(peer.rank, reinterpret_cast<ProbeBlock*>(base + there.probe));
  peer.our_access = reinterpret_cast<AccessWord*>(base + there.access) + me;
  peer.its_access = reinterpret_cast<AccessWord*>(own + here.access) + it;
  peer.out = RingProducer(reinterpret_cast<RingHeader*>(base + there.ring_headers) + me,
                          base + there.rings + me * theirs.ring_bytes, theirs.ring_bytes);
  peer.in = RingConsumer(reinterpret_cast<RingHeader*>(own + here.ring_headers) + it,
                         own + here.rings + it * header().ring_bytes, header().ring_bytes);
}

bool Group::test() {
  act_on_abort();
  const auto step = [this] {
    if (!has_cards_) {
      if (!exchange_cards()) return false;
      create_segment();
      connect_self();
      has_cards_ = true;
    }
    if (!exchange_hellos()) return false;
    watch_processes();
    return true;
  };
  const auto fail = [this](const sdk::Failure& failure) {
    abort(failure);
    act_on_abort();
  };
  return state_.form(
      step, [this] { return state_.late(missing()); }, fail);
}

bool Group::exchange_hellos() {
  const Hello hello{state_.rank(), 0, nonce_, segment_.size(), reinterpret_cast<std::uint64_t>(&nonce_)};
  const int fds[] = {segment_.fd(), context_.bell_fd()};
  int gone = -1;
  const Status status = hellos_.step(
      {kHelloTag, std::as_bytes(std::span(&hello, 1)), fds},
      [this](int member) { return std::string(card_of(member).mailbox); },
      [this](FdMailbox::Message message, int* member) {
        *member = take_hello(message, message.fds);
        return Status();
      },
      &gone);
  if (gone >= 0) {
    throw state_.fault(RODA_ERR_PEER, gone, "left while the group formed, or is in another network namespace",
                       place_of(peer(gone)));
  }
  sdk::expect_ok(status, "shm");
  return hellos_.is_over();
}

// The member that said it; -1 for strangers of the same user, who may write to the mailbox too.
int Group::take_hello(const FdMailbox::Message& message, std::vector<UniqueFd>& fds) {
  Hello hello;
  if (message.payload.size() != sizeof hello || fds.size() != 2) return -1;
  std::memcpy(&hello, message.payload.data(), sizeof hello);
  if (hello.rank < 0 || hello.rank >= state_.size() || hellos_.has_taken(hello.rank)) return -1;
  const Card card = card_of(hello.rank);
  if (!(hello.nonce == card.nonce) || hello.segment_bytes < sizeof(SegmentHeader)) return -1;

  Peer& from = peer(hello.rank);
  from.pid = message.sender;
  sdk::expect_ok(SharedSegment::attach(std::move(fds[0]), hello.segment_bytes, &from.segment), "shm");
  from.segment.close_fd();
  from.bell = std::move(fds[1]);
  from.bell_guard = ForkGuard(from.bell.get());
  auto& theirs = *reinterpret_cast<const SegmentHeader*>(from.segment.data());
  if (!(theirs.nonce == card.nonce)) {
    throw state_.fault(RODA_ERR_AUTH, from.rank, "sent a segment that is not the announced one", place_of(from));
  }
  attach(from, from.segment.data(), hello.segment_bytes);
  (void)::madvise(from.base + theirs.heap_offset, hello.segment_bytes - theirs.heap_offset, MADV_HUGEPAGE);
  try_cma(from, hello.probe_address);
  return hello.rank;
}

void Group::watch_processes() {
  context_.unwatch(hellos_.fd());
  mailbox_guard_ = ForkGuard();
  hellos_.close();
  for (Peer& peer : peers_) {
    if (peer.rank == state_.rank() || peer.pid == 0) continue;
    peer.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
    if (!peer.pidfd) {  // before Linux 5.3, or it is gone already, which its state tells
      context_.log(RODA_LOG_DEBUG, "no pidfd of " + describe(peer) + ": " + std::strerror(errno));
      continue;
    }
    peer.pidfd_guard = ForkGuard(peer.pidfd.get());
    context_.watch(peer.pidfd.get(), &peer);
  }
}

}  // namespace roda::shm
