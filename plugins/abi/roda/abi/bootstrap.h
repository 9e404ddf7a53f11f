/* The optional second entry of a plugin, version 2: how the processes of a job find each other when a launcher of the
 * plugin's kind (an mpirun, say) started them and none of ours did.
 *
 * A plugin that offers it exports, besides its transport,
 *     const roda_bootstrap* roda_bootstrap_v2(void);
 * It only brings the job together: the core learns rank and size, and hands a secret and an address from one rank to
 * the others; then it goes on over its own authenticated connections.
 *
 * Threads: one at a time, not always the same. Entries may block where they say so, never longer than the options allow
 * plus what the library needs to start.
 */
#pragma once

#include <roda/abi/host.h>

#define RODA_BOOTSTRAP_SYMBOL "roda_bootstrap_v2"

typedef struct roda_job roda_job;

/* Which processes form the job. Without ranks and communicator: all that the launcher started. */
typedef struct roda_job_options {
  uint32_t struct_size;
  int32_t num_ranks;    /* 0: no list */
  const int32_t* ranks; /* numbers that the launcher gave, in the order of the job's ranks */
  int32_t has_communicator;
  int32_t communicator; /* the library's own object of several processes, as the integer that it has for Fortran */
  uint64_t timeout_ns;  /* for each entry that blocks; 0 = none */
} roda_job_options;

typedef struct roda_bootstrap {
  uint32_t struct_size;
  uint32_t abi_version;
  const char* name; /* what HOROVOD_CONTROLLER selects it by, lower case */

  /* 1 when a launcher of this kind started this process, or the program has started the library by itself, so that the
   * job's other processes can be found. Starts nothing. Any thread. */
  int32_t (*launched_here)(const roda_host* host);
  /* Collective over the job's processes; blocks until all have come. On failure *job is NULL. */
  int32_t (*start)(const roda_host* host, const roda_job_options* options, roda_job** job, roda_error* error);
  int32_t (*rank)(roda_job* job);
  int32_t (*size)(roda_job* job);
  /* `bytes` of the rank `root` reach all. Collective, blocks. The channel is as private as the library makes it. */
  int32_t (*broadcast)(roda_job* job, void* data, size_t bytes, int32_t root, roda_error* error);
  /* *all becomes 1 when every rank said yes (`mine` not 0), else 0. Collective, blocks. */
  int32_t (*agree)(roda_job* job, int32_t mine, int32_t* all, roda_error* error);
  /* Does not wait for the others. */
  void (*finish)(roda_job* job);

  /* Optional: NULL, or left out by struct_size. A rank of a job that this brought together is gone (`rank`: its number
   * in the job), long after finish: the library's own end, whoever asks for it, may wait for it in vain. Any thread;
   * does not block. */
  void (*peer_lost)(const roda_host* host, int32_t rank);
} roda_bootstrap;

typedef const roda_bootstrap* (*roda_bootstrap_entry)(void);
