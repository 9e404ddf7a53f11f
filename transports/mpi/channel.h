// The messages of one group.
//
// MPI's tags are too narrow for Roda's, so MPI does not match our messages: we do. All of a sender's messages are taken
// in the order of sending (matched probes of any tag), and each says whose it is: a short one carries Roda's tag in
// front of its data; a long one is an MPI message of its own, received straight into the caller's memory, whose MPI tag
// and an announcement in front of the first of its kind give Roda's tag (tag_code.h). While nothing is awaited, what
// comes stays with MPI.
#pragma once

#include <roda/sdk/group_state.hpp>
#include <roda/sdk/matcher.hpp>

#include <cstring>
#include <utility>

#include "transports/mpi/datatypes.h"
#include "transports/mpi/queue.h"
#include "transports/mpi/tag_code.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

// One thread at a time, that of the context, with a Turn. Throws sdk::Failure.
class Channel {
 public:
  // The communicator's ranks are the group's; both outlive this.
  Channel(Runtime& runtime, Queue& queue, MPI_Comm communicator, const sdk::GroupState& group)
      : mpi_(runtime.library()),
        queue_(queue),
        communicator_(communicator),
        group_(group),
        tags_(kFirstLongTag, runtime.largest_tag()),
        peers_(group.world_ranks().size()) {
    frame_.data.resize(kFrameBytes);
  }
  // Needs no Turn. What comes from now on stays with MPI.
  ~Channel() {
    if (frame_.source < 0 || frame_.request == mpi_.request_null) return;
    // MPI still writes to it.
    Operation* rest = queue_.take();
    rest->restart(Operation::Kind::kReceive, frame_.source, 0);
    rest->frame.swap(frame_.data);
    queue_.reserve(1);
    queue_.add(frame_.request, rest);
    queue_.orphan(rest);
  }

  // Starts an operation that has its kind, peer and tag, and its memory in touched[0]. True when it is done already.
  bool send(Operation* operation) {
    if (operation->touched[0].bytes <= kFrameBytes - sizeof operation->tag) return send_short(operation);
    send_long(operation);
    return false;
  }
  bool receive(Operation* operation) {
    Peer& from = peer(operation->peer);
    const bool has_come = from.receives.post(operation, [&](Arrival& arrival) {
      if (arrival.is_long) return deliver_long(operation, &arrival.message, arrival.bytes);
      deliver_short(operation, arrival.data.data(), arrival.data.size());
    });
    if (!has_come) {
      ++awaited_;
      last_awaited_ = operation->peer;
      return false;
    }
    return operation->in_flight == 0 && operation->code == RODA_OK;
  }
  // Takes in what has come while something is awaited. Returns the number of messages.
  int poll() {
    int taken = 0;
    while (awaited_ > 0) {
      if (frame_.source >= 0 && !finish_frame()) break;
      const bool is_one = peer(last_awaited_).receives.awaited().size() == awaited_;
      int found = 0;
      MPI_Message message{};
      MPI_Status status{};
      check(
          mpi_,
          mpi_.Improbe(is_one ? last_awaited_ : MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_, &found, &message, &status),
          "receiving");
      if (found == 0) break;
      take_in(&message, status);
      ++taken;
    }
    return taken;
  }
  // Forgets a receive that has no message yet.
  void withdraw(Operation* operation) {
    if (peer(operation->peer).receives.withdraw(operation)) --awaited_;
  }

 private:
  static constexpr int kShortTag = 1, kAnnouncementTag = 2, kFirstLongTag = 3;
  // With MPI's own header within what Open MPI's shared memory sends at once (4 KiB).
  static constexpr std::size_t kFrameBytes = 4000;

  // A message whose receive was not posted yet. Short: the data. Long: what MPI has matched.
  struct Arrival {
    std::uint64_t tag = 0;
    std::size_t bytes = 0;
    std::vector<char> data;
    MPI_Message message{};
    bool is_long = false;
  };
  struct Peer {
    sdk::Matcher<Operation, Arrival> receives;
    Announced to, by;
  };
  // How MPI is told of so many bytes.
  struct Extent {
    int count;
    MPI_Datatype type;
  };

  bool send_short(Operation* operation) {
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
  void send_long(Operation* operation) {
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
  MPI_Request start_send(const void* data, Extent extent, int peer, int tag) {
    queue_.reserve(1);
    MPI_Request request = mpi_.request_null;
    check(mpi_, mpi_.Isend(data, extent.count, extent.type, peer, tag, communicator_, &request), "sending",
          group_.world_rank(peer));
    return request;
  }

  void take_in(MPI_Message* message, const MPI_Status& status) {
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
  // False when the frame has not come whole.
  bool finish_frame() {
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
  // The receive that is posted for it, from then on no more; null when there is none.
  Operation* claim(int source, std::uint64_t tag) {
    Operation* operation = peer(source).receives.claim(tag);
    if (operation != nullptr) --awaited_;
    return operation;
  }
  void deliver_short(Operation* operation, const char* data, std::size_t bytes) {
    operation->is_matched = true;
    if (check_size(operation, bytes) && bytes > 0) {
      std::memcpy(const_cast<void*>(operation->touched[0].base), data, bytes);
    }
  }
  void deliver_long(Operation* operation, MPI_Message* message, std::size_t bytes) {
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
  bool check_size(Operation* operation, std::size_t bytes) const {
    const std::size_t expected = operation->touched[0].bytes;
    if (bytes == expected) return true;
    operation->fail(group_.other_length(bytes, expected, operation->peer));
    return false;
  }
  Extent extent_of(std::size_t bytes, Operation* operation) {
    if (bytes <= largest_count()) return {static_cast<int>(bytes), mpi_.byte};
    return {1, WideTypes{mpi_, mpi_.byte, 1, &operation->types}.derive(0, bytes)};
  }
  [[noreturn]] void reject(int source) const {
    throw sdk::Failure(RODA_ERR_PEER, "mpi: " + group_.describe(source) + " sent a malformed message",
                       group_.world_rank(source));
  }
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  const Library& mpi_;
  Queue& queue_;
  const MPI_Comm communicator_;
  const sdk::GroupState& group_;
  const TagCode tags_;
  std::vector<Peer> peers_;
  std::size_t awaited_ = 0;  // posted receives of all peers
  int last_awaited_ = 0;     // the peer of the one posted last

  // The one short message or announcement that is being received: what was sent after it waits.
  struct Frame {
    std::vector<char> data;
    std::size_t bytes = 0;
    int source = -1;  // -1: there is none
    int tag = 0;
    MPI_Request request{};
  };
  Frame frame_;
};

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
