// The client of a StoreServer.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/bootstrap/store.h"
#include "plugins/base/secret.h"
#include "plugins/base/secure_connection.h"

namespace roda {

// Any thread. Losing the server is an error that stays and names it; there is no reconnecting.
class TcpStore : public Store {
 public:
  // Blocks until connected and authenticated, at most `timeout`.
  static Status connect(const std::string& host, int port, const Secret& secret, std::chrono::milliseconds timeout,
                        std::unique_ptr<Store>* store);

  // Blocks only while the server takes nothing.
  Status put(const std::string& key, std::string_view value) override;
  Status put_if_absent(const std::string& key, std::string_view value) override;
  Status get(const std::string& key, std::string* value, bool* found) override;
  Status wait(const std::string& key, Clock::time_point deadline, std::string* value) override;
  Status remove(const std::string& key) override;
  Status clear(const std::string& prefix) override;
  Status enter(const std::string& scope, int rank) override;
  Status leave(const std::string& scope, const Status& how) override;

 private:
  struct Pending {
    bool arrived = false;
    std::string value;
    Status failure;
  };

  explicit TcpStore(std::unique_ptr<SecureConnection> connection, std::chrono::milliseconds timeout);

  // All with mutex_ held.
  Status send(std::uint8_t op, const std::string& key, std::string_view value, std::uint32_t id);
  Status take(const std::string& key, std::string* value, bool* found);
  Status drain();
  Status on_frame(const std::vector<std::uint8_t>& frame);
  Status lost(const Status& cause);

  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  bool has_reader_ = false;  // a waiting thread sleeps on the descriptor on behalf of all
  std::unique_ptr<SecureConnection> connection_;
  std::map<std::string, Pending> pending_;      // asked for and not yet handed out
  std::map<std::uint32_t, std::string> asked_;  // id -> key, until answered
  std::uint32_t next_id_ = 1;
  Status failure_;
};

}  // namespace roda
