#include "transports/mpi/channel.h"

#include <algorithm>
#include <cstring>

#include "transports/mpi/pieces.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {
namespace {

constexpr int kFrameTag = 1;
constexpr int kFirstDataTag = 2;
// With MPI's own header within what Open MPI's shared memory sends at once (4 KiB).
constexpr std::size_t kFrameBytes = 4000;
constexpr std::size_t kSlots = 16;

}  // namespace

Channel::Channel(Runtime& runtime, Queue& queue, MPI_Comm communicator, std::vector<std::int32_t> world_ranks)
    : runtime_(runtime),
      mpi_(runtime.library()),
      queue_(queue),
      communicator_(communicator),
      world_ranks_(std::move(world_ranks)),
      data_tags_(static_cast<std::uint32_t>(runtime.largest_tag() - kFirstDataTag)),
      peers_(world_ranks_.size()) {}

Channel::~Channel() = default;

// --- sending --------------------------------------------------------------------------------------------------------

bool Channel::send(Operation* operation) {
  const Operation::Range data = operation->touched[0];
  const bool is_small = data.bytes <= kFrameBytes - sizeof(Header);
  Header header{operation->tag, data.bytes, 0, 0};
  if (!is_small) header.data_tag = kFirstDataTag + peer(operation->peer).next_data_tag++ % data_tags_;
  operation->frame.resize(sizeof header + (is_small ? data.bytes : 0));
  std::memcpy(operation->frame.data(), &header, sizeof header);
  if (is_small && data.bytes > 0) std::memcpy(operation->frame.data() + sizeof header, data.base, data.bytes);

  queue_.reserve(1);
  MPI_Request request = mpi_.request_null;
  check(mpi_,
        mpi_.Isend(operation->frame.data(), static_cast<int>(operation->frame.size()), mpi_.byte, operation->peer,
                   kFrameTag, communicator_, &request),
        "sending", world_rank(operation->peer));
  if (is_small) {
    operation->touched[0] = {};  // it is in the frame
    int done = 0;
    check(mpi_, mpi_.Test(&request, &done, MPI_STATUS_IGNORE), "sending", world_rank(operation->peer));
    if (done != 0) return true;
  }
  queue_.add(request, operation);
  if (!is_small) send_data(operation, header.data_tag);
  return false;
}

void Channel::send_data(Operation* operation, std::uint32_t data_tag) {
  const Operation::Range data = operation->touched[0];
  for_each_piece(data.bytes, [&](std::size_t offset, int count) {
    queue_.reserve(1);
    MPI_Request request = mpi_.request_null;
    check(mpi_,
          mpi_.Isend(static_cast<const char*>(data.base) + offset, count, mpi_.byte, operation->peer,
                     static_cast<int>(data_tag), communicator_, &request),
          "sending", world_rank(operation->peer));
    queue_.add(request, operation);
  });
}

// --- receiving ------------------------------------------------------------------------------------------------------

bool Channel::receive(Operation* operation) {
  if (slots_.empty()) open();
  Peer& from = peer(operation->peer);
  const auto arrival = std::find_if(from.arrived.begin(), from.arrived.end(),
                                    [&](const Arrival& a) { return a.header.tag == operation->tag; });
  if (arrival == from.arrived.end()) {
    from.posted.push_back(operation);
    return false;
  }
  const Arrival taken = std::move(*arrival);
  from.arrived.erase(arrival);
  deliver(operation, taken.header, taken.data.data());
  return operation->in_flight == 0 && operation->code == RODA_OK;
}

void Channel::withdraw(Operation* operation) {
  std::deque<Operation*>& posted = peer(operation->peer).posted;
  posted.erase(std::remove(posted.begin(), posted.end(), operation), posted.end());
}

int Channel::poll() {
  int taken = 0;
  while (!slots_.empty()) {
    Slot& slot = slots_[oldest_];
    int done = 0;
    MPI_Status status{};
    check(mpi_, mpi_.Test(&slot.request, &done, &status), "receiving");
    if (done == 0) break;
    slot.is_active = false;
    int bytes = 0;
    mpi_.Get_count(&status, mpi_.byte, &bytes);
    take_in(status.MPI_SOURCE, slot.frame.data(), static_cast<std::size_t>(bytes));
    start(&slot);
    oldest_ = (oldest_ + 1) % slots_.size();
    ++taken;
  }
  return taken;
}

void Channel::take_in(int source, const char* frame, std::size_t bytes) {
  Header header{};
  if (bytes < sizeof header) {
    throw sdk::Failure(RODA_ERR_PEER, "mpi: rank " + std::to_string(world_rank(source)) + " sent a malformed frame",
                       world_rank(source));
  }
  std::memcpy(&header, frame, sizeof header);
  Peer& from = peer(source);
  const auto posted = std::find_if(from.posted.begin(), from.posted.end(),
                                   [&](const Operation* operation) { return operation->tag == header.tag; });
  if (posted == from.posted.end()) {
    from.arrived.push_back({header, std::vector<char>(frame + sizeof header, frame + bytes)});
    return;
  }
  Operation* operation = *posted;
  from.posted.erase(posted);
  deliver(operation, header, frame + sizeof header);
}

void Channel::deliver(Operation* operation, const Header& header, const char* data) {
  operation->is_matched = true;
  const Operation::Range to = operation->touched[0];
  const bool fits = header.bytes == to.bytes;
  if (!fits) {
    const int rank = world_rank(operation->peer);
    operation->fail(sdk::Failure(RODA_ERR_INVALID,
                                 "mpi: rank " + std::to_string(rank) + " sent " + std::to_string(header.bytes) +
                                     " bytes where " + std::to_string(to.bytes) +
                                     " were to be received: the ranks disagree about an operation",
                                 rank));
  }
  if (header.data_tag == 0) {
    if (fits && to.bytes > 0) std::memcpy(const_cast<void*>(to.base), data, to.bytes);
    return;
  }
  char* into = static_cast<char*>(const_cast<void*>(to.base));
  if (!fits) {
    // Taken all the same, so that the sender's operation ends.
    operation->scratch.resize(header.bytes);
    into = operation->scratch.data();
  }
  receive_data(operation, header, into);
}

void Channel::receive_data(Operation* operation, const Header& header, char* to) {
  for_each_piece(header.bytes, [&](std::size_t offset, int count) {
    queue_.reserve(1);
    MPI_Request request = mpi_.request_null;
    check(mpi_,
          mpi_.Irecv(to + offset, count, mpi_.byte, operation->peer, static_cast<int>(header.data_tag), communicator_,
                     &request),
          "receiving", world_rank(operation->peer));
    queue_.add(request, operation);
  });
}

// --- the ring -------------------------------------------------------------------------------------------------------

void Channel::open() {
  slots_.resize(kSlots);
  for (Slot& slot : slots_) {
    slot.frame.resize(kFrameBytes);
    check(mpi_,
          mpi_.Recv_init(slot.frame.data(), static_cast<int>(kFrameBytes), mpi_.byte, MPI_ANY_SOURCE, kFrameTag,
                         communicator_, &slot.request),
          "preparing to receive");
  }
  for (Slot& slot : slots_) start(&slot);
}

void Channel::start(Slot* slot) {
  check(mpi_, mpi_.Start(&slot->request), "receiving");
  slot->is_active = true;
}

void Channel::close() {
  for (Slot& slot : slots_) {
    if (slot.is_active) {
      mpi_.Cancel(&slot.request);
      mpi_.Wait(&slot.request, MPI_STATUS_IGNORE);  // local: a cancelled receive ends at once
    }
    mpi_.Request_free(&slot.request);
  }
  slots_.clear();
}

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
