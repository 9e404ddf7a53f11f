// Joining a job that a foreign launcher started. From then on the ranks meet over a store of our own.
#pragma once

#include <roda/abi/bootstrap.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/bootstrap/store.h"
#include "core/knobs/knobs.h"
#include "plugins/base/secret.h"
#include "plugins/base/status.h"

namespace roda {

// A value. As it is made: nothing says that this process is a part of a job.
struct DeclaredJob {
  bool is_ours = false;  // the settings have numbers: horovodrun's, or the user's own; nothing else here is set
  std::string launcher;  // "torchrun"
  int rank = 0;
  int size = 1;
  bool is_one_host = false;   // all ranks share this host, as far as is told
  std::string address;        // of rank 0's host; empty: not told
  int port = 0;               // the job's; ours lie above it, see join.h
  std::string identity;       // equal on all ranks of a job, and other jobs' differ as far as can be told
  std::string evidence;       // "RANK=1, WORLD_SIZE=4", for texts
  std::string passed_over;    // names of the others whose variables are there too
  bool is_mpi = false;        // its processes are an MPI job, which MPI itself can bring together
  bool is_innermost = false;  // whatever MPI's variables say: they are of a job around this one
};

// The first of: torchrun; Open MPI's mpirun; mpiexec of MPICH or Intel MPI; RANK, WORLD_SIZE and MASTER_ADDR, whoever
// set them; srun, but for the shells of salloc and sbatch. Where the first of them started one process, and a later one
// several, it is the later one. Where there is none of these, and no RANK, but MASTER_ADDR: the task of an array, or
// the pod of an indexed Job, whose number is its rank, of WORLD_SIZE or as many as Slurm and SGE say. Numbers that are
// no rank of a job are an error that names the variables.
Status find_declared_job(const Knobs& knobs, const Knobs::Getter& variable, DeclaredJob* job);

// The first name of Slurm's list of hosts: "node[07-09,12],login" -> "node07".
std::string first_host(const std::string& list);

// --- by a plugin's bootstrap, which brings the processes together, once ---------------------------------------------

// Which of the launcher's processes form the job. Neither: all.
struct Members {
  std::vector<std::int32_t> ranks;           // in the launcher's numbers
  std::optional<std::int32_t> communicator;  // see roda_job_options

  bool is_everybody() const { return ranks.empty() && !communicator.has_value(); }
};

// Collective over the members; blocks. Sets rank and size in *knobs. The first rank makes the secret and serves the
// store: on loopback when all are on one host, else on HOROVOD_GLOO_IFACE or all interfaces. Where the plugin
// comes up with another size than was `declared` to this process, the error says both.
Status join_launched_job(const roda_bootstrap& bootstrap, const roda_host* host, const Members& members,
                         const DeclaredJob& declared, Knobs* knobs, Secret* secret, std::unique_ptr<Store>* store);

// --- by what the launcher's variables say: the rank, the number of ranks, and where rank 0 is -----------------------
//
// All on one host: over a LocalMeeting, which carries a secret that rank 0 draws; the store listens on loopback.
// Else rank 0 serves the store at the first free port of the 16 above the launcher's port (MASTER_PORT itself belongs
// to torch), on HOROVOD_GLOO_IFACE, else on the address that the launcher gave if it is one of this host's, else on all
// interfaces. The others try these ports in turn. The secret is the user's (HOROVOD_SECRET_FILE) if one is given, else
// made of the job's identity: that keeps jobs apart, and no stranger out.

// Blocks until rank 0 is there, at most gloo_timeout_seconds. Sets rank and size in *knobs. The second time a process
// calls it for the same job, it goes to the same store.
Status join_declared_job(const DeclaredJob& job, Knobs* knobs, Secret* secret, std::unique_ptr<Store>* store);

// Where rank 0's store may listen, the first choice first.
std::vector<int> ports_above(int port);

}  // namespace roda
