// Connections that this side is done with. Closing one at once could lose what was sent last: the kernel throws it away
// when the peer writes once more. So they are read until the peer closes too.
#pragma once

#include <cstddef>
#include <list>
#include <vector>

#include "plugins/base/fork_guard.h"
#include "plugins/base/unique_fd.h"
#include "transports/tcp/watched.h"

namespace roda::tcp_transport {

class Context;

// One thread at a time.
class FarewellList {
 public:
  explicit FarewellList(Context& context) : context_(context) {}
  // Waits, for a second at most, until the peers' kernels have what was sent.
  ~FarewellList();
  FarewellList(const FarewellList&) = delete;
  FarewellList& operator=(const FarewellList&) = delete;

  // Writes `rest`, then the end of the stream. Never throws for a connection that is broken.
  void add(UniqueFd fd, std::vector<std::byte> rest);

 private:
  class One;
  void remove(One& one);

  Context& context_;
  std::list<One> all_;
};

class FarewellList::One final : public Watched {
 public:
  One(FarewellList& list, UniqueFd fd, std::vector<std::byte> rest);
  ~One();
  void on_event(std::uint32_t events) override;
  // True when the connection is over, or broken.
  bool step();
  // Nothing that was sent waits for the peer's kernel.
  bool is_delivered() const;

 private:
  FarewellList& list_;
  UniqueFd fd_;
  ForkGuard guard_;
  std::vector<std::byte> rest_;
  std::size_t written_ = 0;
  bool is_shut_ = false;
};

}  // namespace roda::tcp_transport
