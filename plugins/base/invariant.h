// What holds whatever users, other ranks and machines do: where it does not, the code is wrong, and going on would give
// wrong sums or hang. Looked at in release builds, too.
//
//   RODA_INVARIANT(!launch.tensors.empty(), "a launch has tensors");
//
// A broken one ends the process, after it has told whoever listens: the engine, which ends the job on all ranks with
// the sentence and saves the flight recorder. Any thread.
#pragma once

#include <string>

namespace roda {

// Who is told; one at a time. It neither returns to what is broken nor waits for others.
struct InvariantListener {
  void (*broken)(void* context, const std::string& sentence) = nullptr;
  void* context = nullptr;
};
// The listener lives until forget_invariants(), which does nothing where another one listens by then.
void listen_to_invariants(const InvariantListener* listener);
void forget_invariants(const InvariantListener* listener);

[[noreturn]] void break_invariant(const char* sentence, const char* condition, const char* file, int line);

}  // namespace roda

#define RODA_INVARIANT(condition, sentence)                                                                   \
  (__builtin_expect(!(condition), 0) != 0 ? ::roda::break_invariant(sentence, #condition, __FILE__, __LINE__) \
                                          : static_cast<void>(0))
