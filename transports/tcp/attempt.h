// A connection that is on its way to be one of a group's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "plugins/base/secure_connection.h"
#include "transports/tcp/watched.h"
#include "transports/tcp/wire.h"

namespace roda::tcp_transport {

class Forming;

enum class HelloEnd : std::uint8_t { kUnfinished, kDone, kFailed };

// One thread at a time.
class Attempt final : public Watched {
 public:
  // `rank` -1: somebody connected to us, and says later who it is.
  Attempt(Forming& forming, std::unique_ptr<SecureConnection> connection, int rank, std::uint32_t lane);
  ~Attempt();

  void on_event(std::uint32_t events) override;
  bool is_ours() const { return rank >= 0; }
  // Once the secret is proved: who we are, and which lane this is.
  HelloEnd send_hello(int own_rank);
  HelloEnd receive_hello();

  const int rank;
  std::unique_ptr<SecureConnection> connection;
  Hello hello;
  bool has_news = true;

 private:
  Forming& forming_;
  std::size_t hello_bytes_ = 0;
};

}  // namespace roda::tcp_transport
