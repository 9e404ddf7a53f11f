#include "plugins/base/invariant.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "plugins/base/format.h"
#include "plugins/base/log.h"

namespace roda {
namespace {

std::atomic<const InvariantListener*> listening{nullptr};
std::atomic_flag is_broken;

// From the project's root on, whatever the compiler was told.
std::string_view from_root(std::string_view path) {
  std::size_t root = 0;
  for (const std::string_view folder : {"/core/", "/plugins/"}) {
    if (const std::size_t at = path.rfind(folder); at != std::string_view::npos) root = std::max(root, at + 1);
  }
  return path.substr(root);
}

}  // namespace

void listen_to_invariants(const InvariantListener* listener) { listening.store(listener, std::memory_order_release); }

void forget_invariants(const InvariantListener* listener) {
  listening.compare_exchange_strong(listener, nullptr, std::memory_order_acq_rel);
}

// The first thread that comes here ends the process. What it touches on its way may be broken, too, and it is not held
// up by that.
void break_invariant(const char* sentence, const char* condition, const char* file, int line) {
  if (is_broken.test_and_set()) std::abort();
  const std::string text = roda::format(
      "a fault in Roda itself, and not in the program: it does not hold that {} ({}:{}: {}). Please report it with the "
      "flight recorder's file",
      sentence, from_root(file), line, condition);
  if (const InvariantListener* listener = listening.load(std::memory_order_acquire)) {
    listener->broken(listener->context, text);
  }
  logging::write_text(logging::Level::fatal, file, line, text + ".");
  std::abort();
}

}  // namespace roda
