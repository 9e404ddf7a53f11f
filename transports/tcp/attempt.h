// A connection that is on its way to be one of a group's. The end that connected says who it is and which lane this is;
// the other answers when it takes the connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "plugins/base/secure_connection.h"
#include "transports/tcp/watched.h"
#include "transports/tcp/wire.h"

namespace roda::tcp_transport {

class Connector;
class Group;

// One thread at a time.
class Attempt final : public Watched {
 public:
  // `group` null: somebody connected to us, and says later who it is.
  Attempt(Connector& connector, std::unique_ptr<SecureConnection> connection, Group* group, int rank,
          const Hello& hello);
  ~Attempt() { end(); }

  enum class Outcome : std::uint8_t { kUnfinished, kReady, kFailed };
  // kReady: the peer has taken it; of one that is not ours: its hello is here. *why: of a failure.
  Outcome step(Status* why);
  // Of one that is not ours and ready. False: the connection is broken.
  bool welcome();
  // For its lane. It is over then.
  UniqueFd release();
  // Closes it, unless it is over.
  void end();
  // Of one that is ours: the peer's is used instead. It goes on until the peer, who knows that too, closes it: to give
  // up in the middle of the proof is what strangers do.
  void give_up();
  bool is_given_up() const { return is_given_up_; }

  void on_event(std::uint32_t events) override;
  bool is_ours() const { return group != nullptr; }
  bool is_over() const { return connection_ == nullptr; }
  const std::string& peer() const { return connection_->peer(); }

  Group* const group;
  const int rank;  // of the peer, of one that is ours
  Hello hello;
  bool has_news = true;

 private:
  bool write(const void* data, std::size_t bytes);
  bool read(void* data, std::size_t bytes);
  void await(bool wanted);

  Connector& connector_;
  std::unique_ptr<SecureConnection> connection_;
  std::uint32_t answer_ = 0;
  std::size_t done_ = 0;  // bytes of what is being written or read
  bool has_hello_ = false;
  bool is_broken_ = false;
  bool is_given_up_ = false;
  bool is_awaited_ = false;
};

}  // namespace roda::tcp_transport
