// MPI as a transport, as seen from outside any MPI library: the flavours that this plugin was built for and which of
// them serves this process, what the environment says about who started it, and what tests can set. See
// docs/transports.md.
#pragma once

#include <roda/abi/bootstrap.h>
#include <roda/abi/transport.h>
#include <roda/sdk/settings.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

#define RODA_MPI_DECLARE(flavour)          \
  namespace roda::mpi::flavour {           \
  const roda_transport* transport();       \
  const roda_bootstrap* bootstrap();       \
  bool is_loaded(); /* by somebody else */ \
  bool is_there();  /* can be opened */    \
  }
RODA_MPI_DECLARE(openmpi)
RODA_MPI_DECLARE(mpich)
RODA_MPI_DECLARE(standard)
#undef RODA_MPI_DECLARE

// The same answer for the whole life of the process. Any thread.
const roda_transport* roda_mpi_transport();
const roda_bootstrap* roda_mpi_bootstrap();

namespace roda::mpi {

// The text of a variable, or null when it is unset.
using Getter = std::function<const char*(const char* name)>;

enum class Flavour { kOpenMpi, kMpich, kStandard };

// An MPI launcher's marks. Not `found`: this process was started by something else.
struct Launch {
  bool found = false;
  int rank = -1;
  int size = -1;
  std::string job;  // equal for all processes of one launch, different for another one as far as that can be told
  std::string by;   // in words
};

// Any launcher may start a program of the standard's binary interface.
Launch find_launch(Flavour flavour, const Getter& variable);

// The folder above that of the first mpirun or mpiexec in `path`, a value of PATH or null; links are followed. Empty
// where there is none.
std::filesystem::path prefix_of_launcher(const char* path);

// Why the ranks of this job can't talk over MPI, "" when they can or when there is no job: another launcher started
// them, so that each would be an MPI world of its own.
std::string why_no_common_world(const Launch& launch, const Getter& variable);

// Read once per context.
struct Settings {
  std::size_t largest_count;
};

inline constexpr sdk::Setting<Settings> kSettings[] = {
    {&Settings::largest_count, "RODA_TEST_MPI_LARGEST_COUNT", "elements", "1073741824", 1, 1 << 30,
     "Of one call: lower, it reaches the paths of huge tensors with small ones."},
};

// Elements of one call, see above.
inline std::size_t& largest_count() {
  static std::size_t limit = std::size_t{1} << 30;
  return limit;
}

// Calls body(offset, count) for consecutive pieces of `total`, each at most largest_count().
template <typename Body>
void for_each_piece(std::size_t total, Body&& body) {
  for (std::size_t offset = 0; offset < total; offset += largest_count()) {
    body(offset, static_cast<int>(std::min(largest_count(), total - offset)));
  }
}

}  // namespace roda::mpi
