// refused TEXT: a rank whose init must fail with an error that contains TEXT. Ends with 0 then.
// refused --or-works TEXT: one whose init may also succeed, as one of two processes of the same rank does. Ends with 0
// when it works, then with the others through an operation, and with 3 when it was refused.
// refused --dies: one that works, and is killed between its shutdown and its exit.
#include <signal.h>

#include <cstdio>
#include <cstring>

#include "bindings/c/roda.h"
#include "tests/multi/engine/one_operation.h"

namespace {

constexpr int kRefused = 3;

int work() {
  float data = 1;
  roda_error error{};
  error.struct_size = sizeof error;
  const bool works = roda::test::add_up(&data, &error) == RODA_OK && data == static_cast<float>(roda_size());
  if (!works) std::fprintf(stderr, "refused: sum %f, %s\n", static_cast<double>(data), error.message);
  roda_shutdown();
  return works ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool dies = argc == 2 && std::strcmp(argv[1], "--dies") == 0;
  const bool may_work = dies || (argc == 3 && std::strcmp(argv[1], "--or-works") == 0);
  if (argc != 2 && !may_work) return 2;
  const char* text = argv[argc - 1];
  roda_error error{};
  error.struct_size = sizeof error;
  if (roda_init(nullptr, &error) == RODA_OK) {
    if (may_work) {
      const int outcome = work();
      return dies ? raise(SIGKILL) : outcome;
    }
    std::fprintf(stderr, "refused: init succeeded, though it should say: %s\n", text);
    return 1;
  }
  const bool is_right = std::strstr(error.message, text) != nullptr;
  if (!is_right) std::fprintf(stderr, "refused: init says: %s\n  not: %s\n", error.message, text);
  if (!is_right) return 1;
  return may_work ? kRefused : 0;
}
