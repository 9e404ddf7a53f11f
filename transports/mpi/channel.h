// The messages of one group.
//
// MPI's tags are too narrow for Roda's, so MPI does not match our messages: we do. All of a sender's messages are taken
// in the order of sending (matched probes of any tag), and each says whose it is: a short one carries Roda's tag in
// front of its data; a long one is an MPI message of its own, received straight into the caller's memory, whose MPI tag
// and an announcement in front of the first of its kind give Roda's tag (tag_code.h). While nothing is awaited, what
// comes stays with MPI.
#pragma once

#include <cstdint>
#include <roda/sdk/group_state.hpp>
#include <roda/sdk/matcher.hpp>
#include <vector>

#include "transports/mpi/queue.h"
#include "transports/mpi/tag_code.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

// One thread at a time, that of the context, with a Turn. Throws sdk::Failure.
class Channel {
 public:
  // The communicator's ranks are the group's; both outlive this.
  Channel(Runtime& runtime, Queue& queue, MPI_Comm communicator, const sdk::GroupState& group);
  // Needs no Turn. What comes from now on stays with MPI.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Starts an operation that has its kind, peer and tag, and its memory in touched[0]. True when it is done already.
  bool send(Operation* operation);
  bool receive(Operation* operation);
  // Takes in what has come while something is awaited. Returns the number of messages.
  int poll();
  // Forgets a receive that has no message yet.
  void withdraw(Operation* operation);

 private:
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

  bool send_short(Operation* operation);
  void send_long(Operation* operation);
  MPI_Request start_send(const void* data, Extent extent, int peer, int tag);

  void take_in(MPI_Message* message, const MPI_Status& status);
  // False when the frame has not come whole.
  bool finish_frame();
  // The receive that is posted for it, from then on no more; null when there is none.
  Operation* claim(int source, std::uint64_t tag);
  void deliver_short(Operation* operation, const char* data, std::size_t bytes);
  void deliver_long(Operation* operation, MPI_Message* message, std::size_t bytes);
  bool check_size(Operation* operation, std::size_t bytes) const;
  Extent extent_of(std::size_t bytes, Operation* operation);
  [[noreturn]] void reject(int source) const;
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
