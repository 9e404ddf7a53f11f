// The job that this process belongs to, as the variables of the launcher that started it say. Pure.
#pragma once

#include <string>

#include "core/knobs/knobs.h"
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

}  // namespace roda
