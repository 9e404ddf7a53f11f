// What the environment says about who started this process. Pure; knows no MPI library.
#pragma once

#include <functional>
#include <string>

namespace roda::mpi {

// The text of a variable, or null when it is unset.
using Getter = std::function<const char*(const char* name)>;

enum class Flavour { kOpenMpi, kMpich };

// An MPI launcher's marks. Not `found`: this process was started by something else.
struct Launch {
  bool found = false;
  int rank = -1;
  int size = -1;
  std::string job;  // equal for all processes of one launch, different for another one as far as that can be told
  std::string by;   // in words
};

Launch find_launch(Flavour flavour, const Getter& variable);

// Why the ranks of this job can't talk over MPI, "" when they can or when there is no job: another launcher started
// them, so that each would be an MPI world of its own.
std::string why_no_common_world(const Launch& launch, const Getter& variable);

}  // namespace roda::mpi
