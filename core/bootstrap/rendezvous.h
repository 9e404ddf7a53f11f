// The ways to the store that the job meets over.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/bootstrap/store.h"
#include "core/knobs/knobs.h"
#include "plugins/base/address.h"
#include "plugins/base/secret.h"
#include "plugins/base/status.h"

namespace roda {

// From HOROVOD_SECRET_FILE (refused unless it is a regular file of this user that nobody else can read; one newline at
// its end does not count), where that can't be read from HOROVOD_SECRET_FD (a pipe or file, read to its end once per
// process and kept for later calls), without either from _HOROVOD_SECRET_KEY (base64). No source at all, or one that is
// too short, is an error that says what to set. A number of a descriptor says little in a program that a rank started,
// so the file comes first.
Status load_secret(const Knobs& knobs, Secret* secret);

Status read_secret_file(const std::string& path, Secret* secret);
Status read_secret_fd(int fd, Secret* secret);  // closes the descriptor
Status decode_base64(std::string_view text, Secret* secret);

// 64 hexadecimal characters from 32 random bytes: survives files, pipes and text editors.
Status generate_secret(Secret* secret);

// As the settings say. Without a rendezvous address: a job of one process, a LocalStore and a generated secret. With
// one: the launcher's secret and its store, connected within gloo_timeout_seconds. Blocks.
Status open_store(const Knobs& knobs, Secret* secret, std::unique_ptr<Store>* store);

// A client of the StoreServer there; blocks until connected and authenticated, at most `timeout`. Losing the server is
// an error that stays and names it; there is no reconnecting.
Status connect_store(const std::string& host, int port, const Secret& secret, std::chrono::milliseconds timeout,
                     std::unique_ptr<Store>* store);

// The store's keys of one generation of a job begin with "<scope>/" (store.h).
std::string scope_of(std::uint64_t generation);

// What rank 0 tells the others where no launcher tells them: where the store is, and its secret. Plain bytes: it
// travels between processes of one build, which is checked later. Wiped when it goes.
struct Invitation {
  std::int32_t code = RODA_OK;
  std::int32_t port = 0;
  std::uint32_t secret_bytes = 0;
  char text[600] = {};  // addresses, of which another rank may reach but one, or what went wrong
  std::uint8_t secret[256] = {};

  ~Invitation();
  Status status() const { return code == RODA_OK ? Status() : Status(code, text, 0); }  // of the rank that invites
  void refuse(const Status& why);
  // The secret is of generate_secret's length. Addresses for which there is no room are left out.
  void offer(const std::vector<SocketAddress>& addresses, int port, const Secret& secret);
  Secret offered() const;
};

// Serves a store, as long as other ranks may still be reading from it: until the second call after this one.
Status serve_store(const SocketAddress& address, const Secret& secret, SocketAddress* bound);

// Tries places, in rounds, until one answers and proves the secret. `places` is asked before each round: a name may
// come to mean something while others start.
using Places = std::function<Status(std::vector<SocketAddress>* places)>;
Status reach_store(const Places& places, const Secret& secret, Deadline deadline, SocketAddress* reached,
                   std::unique_ptr<Store>* store);

Status accept(const Invitation& invitation, std::chrono::milliseconds timeout, Secret* secret,
              std::unique_ptr<Store>* store);

}  // namespace roda
