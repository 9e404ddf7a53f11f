// The client of a StoreServer.
#pragma once

#include <compare>
#include <condition_variable>
#include <map>
#include <memory>
#include <string>

#include "core/bootstrap/store.h"
#include "core/bootstrap/store_wire.h"
#include "plugins/base/mutex.h"
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
  Status wait(const std::string& key, Deadline deadline, std::string* value) override;
  Status give(const std::string& key, int rank, std::string_view value) override;
  Status take(const std::string& key, int rank, std::string* value, bool* found) override;
  Status take_all(const std::string& key, int count, std::vector<std::string>* values, bool* found) override;
  Status wait_all(const std::string& key, int count, Deadline deadline, std::vector<std::string>* values) override;
  int first_missing(const std::string& key, int count) override;
  Status enter(const std::string& scope, int rank) override;
  Status leave(const std::string& scope, const Status& how) override;
  Ends ends() const override { return ends_; }

 private:
  struct Question {
    store_wire::Op op;
    std::string key;
    std::string about;
    auto operator<=>(const Question&) const = default;
  };
  struct Pending {
    bool arrived = false;
    std::string value;
    Status failure;
  };

  explicit TcpStore(std::unique_ptr<SecureConnection> connection, std::chrono::milliseconds timeout);

  Status send(store_wire::Op op, const std::string& key, std::string_view value, std::uint32_t id = 0)
      RODA_REQUIRES(mutex_);
  // Hands out the answer, or asks when nobody has yet.
  Status ask_once(const Question& question, std::string* answer, bool* found) RODA_REQUIRES(mutex_);
  // The same, and of kTakeAll the whole text.
  Status ask(const Question& question, std::string* answer, bool* found) RODA_REQUIRES(mutex_);
  // Asks once more after a look at what has come.
  Status try_once(const Question& question, std::string* answer, bool* found);
  // Asks until there is an answer.
  Status wait_for(const Question& question, Deadline deadline, std::string* answer);
  Status unpack(std::string_view text, int count, std::vector<std::string>* values);
  Status drain() RODA_REQUIRES(mutex_);
  Status on_frame(const std::vector<std::uint8_t>& frame) RODA_REQUIRES(mutex_);
  Status lost(const Status& cause) RODA_REQUIRES(mutex_);

  std::chrono::milliseconds timeout_;
  const Ends ends_;
  Mutex mutex_;
  std::condition_variable arrived_;
  bool has_reader_ RODA_GUARDED_BY(mutex_) = false;  // a waiting thread sleeps on the descriptor on behalf of all
  const std::unique_ptr<SecureConnection> connection_ RODA_PT_GUARDED_BY(mutex_);
  std::map<Question, Pending> pending_ RODA_GUARDED_BY(mutex_);          // asked for and not yet handed out
  std::map<std::uint32_t, Question> asked_ RODA_GUARDED_BY(mutex_);      // by id, until answered
  std::map<std::string, std::string> gathered_ RODA_GUARDED_BY(mutex_);  // by key: what has come of all values
  std::uint32_t next_id_ RODA_GUARDED_BY(mutex_) = 1;
  Status failure_ RODA_GUARDED_BY(mutex_);
};

}  // namespace roda
