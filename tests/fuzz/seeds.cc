// `fuzz_NAME --seeds=FOLDER` writes the target's well-formed inputs there and ends.
#include <fstream>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kFlag = "--seeds=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (!argument.starts_with(kFlag)) continue;
    int number = 0;
    for (const std::string& seed : roda::fuzz::seeds()) {
      std::ofstream(std::string(argument.substr(kFlag.size())) + "/seed" + std::to_string(number++)) << seed;
    }
    std::exit(0);
  }
  return 0;
}
