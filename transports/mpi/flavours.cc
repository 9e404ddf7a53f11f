#include "transports/mpi/mpi.h"

#include <cstdlib>
#include <sstream>
#include <vector>

namespace roda::mpi {
namespace {

// Where a launcher tells a process its numbers.
struct Marks {
  Flavour flavour;
  const char* rank;
  const char* size;
  const char* job;
  const char* by;
};

constexpr Marks kMarks[] = {
    {Flavour::kOpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", "Open MPI's mpirun"},
    {Flavour::kOpenMpi, "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "PMIX_NAMESPACE", "srun with PMIx"},
    {Flavour::kMpich, "PMI_RANK", "PMI_SIZE", "PMI_JOBID", "an MPICH launcher (PMI)"},
    {Flavour::kMpich, "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "PMIX_NAMESPACE", "srun with PMIx"},
};

std::string text_of(const Getter& variable, const char* name) {
  const char* text = variable(name);
  return text != nullptr ? text : "";
}

int number_of(const Getter& variable, const char* name) {
  const std::string text = text_of(variable, name);
  return text.empty() ? -1 : std::atoi(text.c_str());
}

std::string job_of(const Marks& marks, const Getter& variable) {
  std::string job = text_of(variable, marks.job);
  if (job.empty()) job = text_of(variable, "OMPI_MCA_ess_base_jobid");
  const std::string slurm = text_of(variable, "SLURM_JOB_ID");
  if (!slurm.empty()) job += "/" + slurm + "." + text_of(variable, "SLURM_STEP_ID");
  return job;
}

struct Built {
  Flavour flavour;
  const roda_transport* (*transport)();
  const roda_bootstrap* (*bootstrap)();
  bool (*is_loaded)();
  bool (*is_there)();
};

// In the order of preference where nothing speaks for one of them.
const std::vector<Built>& built() {
  static const std::vector<Built> flavours = {
#ifdef RODA_MPI_HAS_OPENMPI
      {Flavour::kOpenMpi, openmpi::transport, openmpi::bootstrap, openmpi::is_loaded, openmpi::is_there},
#endif
#ifdef RODA_MPI_HAS_MPICH
      {Flavour::kMpich, mpich::transport, mpich::bootstrap, mpich::is_loaded, mpich::is_there},
#endif
#ifdef RODA_MPI_HAS_STANDARD
      {Flavour::kStandard, standard::transport, standard::bootstrap, standard::is_loaded, standard::is_there},
#endif
  };
  return flavours;
}

// A library that the program uses already must be ours too; else the one whose launcher started this process; else one
// that is installed.
const Built& choose() {
  for (const Built& each : built()) {
    if (each.is_loaded()) return each;
  }
  for (const Built& each : built()) {
    const bool is_launched = find_launch(each.flavour, std::getenv).found;
    if (is_launched && each.is_there()) return each;
  }
  for (const Built& each : built()) {
    if (each.is_there()) return each;
  }
  return built().front();
}

const Built& chosen() {
  static const Built& choice = choose();
  return choice;
}

}  // namespace

Launch find_launch(Flavour flavour, const Getter& variable) {
  for (const Marks& marks : kMarks) {
    if (flavour != Flavour::kStandard && marks.flavour != flavour) continue;
    const int rank = number_of(variable, marks.rank), size = number_of(variable, marks.size);
    if (rank < 0 || size < 1) continue;
    return {true, rank, size, job_of(marks, variable), marks.by};
  }
  return {};
}

std::filesystem::path prefix_of_launcher(const char* path) {
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const char* name : {"mpirun", "mpiexec"}) {
      std::error_code error;
      const std::filesystem::path program = std::filesystem::canonical(std::filesystem::path(folder) / name, error);
      if (!error) return program.parent_path().parent_path();
    }
  }
  return {};
}

std::string why_no_common_world(const Launch& launch, const Getter& variable) {
  if (number_of(variable, "HOROVOD_ELASTIC") > 0) return "the job is elastic, and MPI takes in no processes later";
  const int size = number_of(variable, "HOROVOD_SIZE");
  if (size <= 1) return "";
  const std::string advice = "start the job with `horovodrun --mpi` or mpirun, or use another transport";
  if (!launch.found) {
    return "this rank was not started by an MPI launcher, so that no MPI connects it to the others: " + advice;
  }
  if (launch.size < size) {
    return "the job of " + std::to_string(size) + " ranks was started inside an MPI process (rank " +
           std::to_string(launch.rank) + " of " + std::to_string(launch.size) + " of " + launch.by +
           "), so that no MPI connects its ranks: " + advice;
  }
  return "";
}

}  // namespace roda::mpi

const roda_transport* roda_mpi_transport() { return roda::mpi::chosen().transport(); }
const roda_bootstrap* roda_mpi_bootstrap() { return roda::mpi::chosen().bootstrap(); }
