// The messages of one group.
//
// MPI's tags have as few as 15 bits and Roda's have 64, so MPI does not match our messages: we do. Every message starts
// with a frame, on one MPI tag and hence in the order of sending, that carries the 64-bit tag, the length, and the data
// if they are few; more data follow as MPI messages of their own, on an MPI tag that the frame names, straight into the
// receiver's memory. Frames are taken in by a ring of persistent receives.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "transports/mpi/queue.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

// One thread at a time, that of the context, with a Turn. Throws sdk::Failure.
class Channel {
 public:
  // The communicator's ranks are the group's; it outlives this.
  Channel(Runtime& runtime, Queue& queue, MPI_Comm communicator, std::vector<std::int32_t> world_ranks);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Starts an operation that has its kind, peer and tag, and its memory in touched[0]. True when it is done already.
  bool send(Operation* operation);
  bool receive(Operation* operation);
  // Takes in what has come. Returns the number of frames.
  int poll();
  // Forgets a receive that has no message yet.
  void withdraw(Operation* operation);
  // Ends the ring. Messages that come from now on stay with MPI.
  void close();

 private:
  struct Header {
    std::uint64_t tag;
    std::uint64_t bytes;
    std::uint32_t data_tag;  // of the data that follow; unused when they are in the frame
    std::uint32_t reserved;
  };
  struct Slot {
    std::vector<char> frame;
    MPI_Request request;
    bool is_active = false;
  };
  // A message whose receive was not posted yet.
  struct Arrival {
    Header header;
    std::vector<char> data;
  };
  struct Peer {
    std::deque<Operation*> posted;
    std::deque<Arrival> arrived;
    std::uint32_t next_data_tag = 0;
  };

  void open();
  void start(Slot* slot);
  void take_in(int source, const char* frame, std::size_t bytes);
  // The receive and its message have met.
  void deliver(Operation* operation, const Header& header, const char* data);
  void receive_data(Operation* operation, const Header& header, char* to);
  void send_data(Operation* operation, std::uint32_t data_tag);
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  int world_rank(int rank) const { return world_ranks_[static_cast<std::size_t>(rank)]; }

  Runtime& runtime_;
  const Library& mpi_;
  Queue& queue_;
  const MPI_Comm communicator_;
  const std::vector<std::int32_t> world_ranks_;
  const std::uint32_t data_tags_;  // how many there are
  std::vector<Peer> peers_;
  std::vector<Slot> slots_;  // empty until the first receive
  std::size_t oldest_ = 0;   // slots complete in the order in which they were started
};

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
