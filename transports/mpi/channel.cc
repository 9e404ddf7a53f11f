#include "transports/mpi/channel.h"

#include <cstring>
#include <string>
#include <utility>

#include "transports/mpi/pieces.h"
#include "transports/mpi/wide_types.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {
namespace {

constexpr int kShortTag = 1;
constexpr int kAnnouncementTag = 2;
constexpr int kFirstLongTag = 3;
// With MPI's own header within what Open MPI's shared memory sends at once (4 KiB).
constexpr std::size_t kFrameBytes = 4000;

}  // namespace

Channel::Channel(Runtime& runtime, Queue& queue, MPI_Comm communicator, const sdk::GroupState& group)
    : mpi_(runtime.library()),
      queue_(queue),
      communicator_(communicator),
      group_(group),
      tags_(kFirstLongTag, runtime.largest_tag()),
      peers_(group.world_ranks().size()) {
  frame_.data.resize(kFrameBytes);
}

Channel::Extent Channel::extent_of(std::size_t bytes, Operation* operation) {
  if (bytes <= largest_count()) return {static_cast<int>(bytes), mpi_.byte};
  return {1, WideTypes{mpi_, mpi_.byte, 1, &operation->types}.derive(0, bytes)};
}

// --- sending --------------------------------------------------------------------------------------------------------

bool Channel::send(Operation* operation) {
  if (operation->touched[0].bytes <= kFrameBytes - sizeof operation->tag) return send_short(operation);
  send_long(operation);
  return false;
}

MPI_Request Channel::start_send(const void* data, Extent extent, int peer, int tag) {
  queue_.reserve(1);
  MPI_Request request = mpi_.request_null;
  check(mpi_, mpi_.Isend(data, extent.count, extent.type, peer, tag, communicator_, &request), "sending",
        group_.world_rank(peer));
  return request;
}

bool Channel::send_short(Operation* operation) {
  const Operation::Range data = operation->touched[0];
  std::vector<char>& frame = operation->frame;
  frame.resize(sizeof operation->tag + data.bytes);
  std::memcpy(frame.data(), &operation->tag, sizeof operation->tag);
  if (data.bytes > 0) std::memcpy(frame.data() + sizeof operation->tag, data.base, data.bytes);
  operation->touched[0] = {};  // it is in the frame

  const Extent extent{static_cast<int>(frame.size()), mpi_.byte};
  MPI_Request request = start_send(frame.data(), extent, operation->peer, kShortTag);
  int done = 0;
  check(mpi_, mpi_.Test(&request, &done, MPI_STATUS_IGNORE), "sending", group_.world_rank(operation->peer));
  if (done == 0) queue_.add(request, operation);
  return done != 0;
}

void Channel::send_long(Operation* operation) {
  const std::uint64_t prefix = tags_.prefix_of(operation->tag);
  const int to = operation->peer;
  if (peer(to).to.set(prefix)) {
    operation->frame.resize(sizeof prefix);
    std::memcpy(operation->frame.data(), &prefix, sizeof prefix);
    queue_.add(start_send(operation->frame.data(), {sizeof prefix, mpi_.byte}, to, kAnnouncementTag), operation);
  }
  const Operation::Range data = operation->touched[0];
  queue_.add(start_send(data.base, extent_of(data.bytes, operation), to, tags_.encode(operation->tag)), operation);
}

// --- taking in ------------------------------------------------------------------------------------------------------

int Channel::poll() {
  int taken = 0;
  while (awaited_ > 0) {
    if (frame_.source >= 0 && !finish_frame()) break;
    const bool is_one = peer(last_awaited_).receives.awaited().size() == awaited_;
    int found = 0;
    MPI_Message message{};
    MPI_Status status{};
    check(mpi_,
          mpi_.Improbe(is_one ? last_awaited_ : MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_, &found, &message, &status),
          "receiving");
    if (found == 0) break;
    take_in(&message, status);
    ++taken;
  }
  return taken;
}

void Channel::take_in(MPI_Message* message, const MPI_Status& status) {
  MPI_Count count = 0;
  mpi_.Get_elements_x(&status, mpi_.byte, &count);
  const auto bytes = static_cast<std::size_t>(count);
  const int source = status.MPI_SOURCE;
  if (status.MPI_TAG >= kFirstLongTag) {
    const std::uint64_t* prefix = peer(source).by.find(tags_.number_in(status.MPI_TAG));
    if (prefix == nullptr) reject(source);
    const std::uint64_t tag = tags_.decode(status.MPI_TAG, *prefix);
    if (Operation* operation = claim(source, tag)) return deliver_long(operation, message, bytes);
    Arrival& arrival = peer(source).receives.keep(tag);
    arrival.bytes = bytes;
    arrival.message = *message;
    arrival.is_long = true;
    return;
  }
  if (bytes < sizeof(std::uint64_t) || bytes > kFrameBytes) reject(source);
  check(mpi_, mpi_.Imrecv(frame_.data.data(), static_cast<int>(bytes), mpi_.byte, message, &frame_.request),
        "receiving", group_.world_rank(source));
  frame_.bytes = bytes;
  frame_.source = source;
  frame_.tag = status.MPI_TAG;
  finish_frame();
}

bool Channel::finish_frame() {
  int done = 0;
  check(mpi_, mpi_.Test(&frame_.request, &done, MPI_STATUS_IGNORE), "receiving", group_.world_rank(frame_.source));
  if (done == 0) return false;
  const int source = std::exchange(frame_.source, -1);
  std::uint64_t word = 0;
  std::memcpy(&word, frame_.data.data(), sizeof word);
  if (frame_.tag == kAnnouncementTag) {
    peer(source).by.set(word);
    return true;
  }
  const char* data = frame_.data.data() + sizeof word;
  const std::size_t bytes = frame_.bytes - sizeof word;
  if (Operation* operation = claim(source, word)) {
    deliver_short(operation, data, bytes);
  } else {
    peer(source).receives.keep(word).data.assign(data, data + bytes);
  }
  return true;
}

void Channel::reject(int source) const {
  throw sdk::Failure(RODA_ERR_PEER, "mpi: " + group_.describe(source) + " sent a malformed message",
                     group_.world_rank(source));
}

Channel::~Channel() {
  if (frame_.source < 0 || frame_.request == mpi_.request_null) return;
  // MPI still writes to it.
  Operation* rest = queue_.take();
  rest->restart(Operation::Kind::kReceive, frame_.source, 0);
  rest->frame.swap(frame_.data);
  queue_.reserve(1);
  queue_.add(frame_.request, rest);
  queue_.orphan(rest);
}

// --- receiving ------------------------------------------------------------------------------------------------------

bool Channel::receive(Operation* operation) {
  Peer& from = peer(operation->peer);
  const Arrival* found = from.receives.find(operation->tag);
  if (found == nullptr) {
    from.receives.await(operation);
    ++awaited_;
    last_awaited_ = operation->peer;
    return false;
  }
  Arrival arrival = *found;
  from.receives.drop(found);
  if (arrival.is_long) {
    deliver_long(operation, &arrival.message, arrival.bytes);
  } else {
    deliver_short(operation, arrival.data.data(), arrival.data.size());
  }
  return operation->in_flight == 0 && operation->code == RODA_OK;
}

void Channel::withdraw(Operation* operation) {
  if (peer(operation->peer).receives.withdraw(operation)) --awaited_;
}

Operation* Channel::claim(int source, std::uint64_t tag) {
  Operation* operation = peer(source).receives.claim(tag);
  if (operation != nullptr) --awaited_;
  return operation;
}

void Channel::deliver_short(Operation* operation, const char* data, std::size_t bytes) {
  operation->is_matched = true;
  if (check_size(operation, bytes) && bytes > 0) {
    std::memcpy(const_cast<void*>(operation->touched[0].base), data, bytes);
  }
}

void Channel::deliver_long(Operation* operation, MPI_Message* message, std::size_t bytes) {
  void* to = const_cast<void*>(operation->touched[0].base);
  if (!check_size(operation, bytes)) {
    // Taken all the same, so that the sender's operation ends.
    operation->scratch.resize(bytes);
    to = operation->scratch.data();
  }
  queue_.reserve(1);
  const Extent extent = extent_of(bytes, operation);
  MPI_Request request = mpi_.request_null;
  check(mpi_, mpi_.Imrecv(to, extent.count, extent.type, message, &request), "receiving",
        group_.world_rank(operation->peer));
  queue_.add(request, operation);
  operation->is_matched = true;
}

// False when the operation has failed for it.
bool Channel::check_size(Operation* operation, std::size_t bytes) const {
  const std::size_t expected = operation->touched[0].bytes;
  if (bytes == expected) return true;
  operation->fail(group_.other_length(bytes, expected, operation->peer));
  return false;
}

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
