/* Algorithms from a plugin, version 1: a shared object of kind "algorithms" that exports
 *     const roda_algorithms* roda_algorithms_v1(void);
 * and the data symbol `roda_plugin_info` (transport.h).
 *
 * An algorithm says what each rank of a group does, as steps over chunks of the data; docs/algorithms.md describes
 * them. It knows no transport, dtype or byte count. Nothing is believed: before a size is run the schedules of all its
 * ranks are executed symbolically, and a race, a deadlock or a wrong result is refused with the rank and the step.
 *
 * Threads: any thread may call any entry. Entries are pure: the same answers on every rank and every time. Structs only
 * grow, by entries at their end.
 */
#pragma once

#include <roda/abi/types.h>

#define RODA_ALGORITHMS_SYMBOL "roda_algorithms_v1"

typedef enum roda_space {
  RODA_SPACE_INPUT = 0,
  RODA_SPACE_OUTPUT = 1,
  RODA_SPACE_SCRATCH = 2,
} roda_space;

/* `count` consecutive chunks; 0: no data. */
typedef struct roda_range {
  int32_t space; /* roda_space */
  int32_t first;
  int32_t count;
} roda_range;

typedef enum roda_step_kind {
  RODA_STEP_SEND = 0,        /* src -> peer */
  RODA_STEP_RECV = 1,        /* peer -> dst */
  RODA_STEP_RECV_REDUCE = 2, /* dst = src (op) message from peer */
  RODA_STEP_COPY = 3,        /* dst = src */
  RODA_STEP_REDUCE = 4,      /* dst = dst (op) src */
  RODA_STEP_GET = 5,         /* dst = peer's src */
  RODA_STEP_GET_REDUCE = 6,  /* dst = dst (op) peer's src */
  RODA_STEP_PUT = 7,         /* peer's dst = src */
  RODA_STEP_SIGNAL = 8,      /* `signal` of this rank at peer counts one up */
  RODA_STEP_WAIT = 9,        /* until `signal` from peer has counted as often as the lane has waited for it */
} roda_step_kind;

#define RODA_ALL_PEERS (-1) /* of a signal or wait: every other rank */

typedef struct roda_step {
  int32_t kind; /* roda_step_kind */
  int32_t peer; /* in the group */
  roda_range src;
  roda_range dst;
  int32_t signal; /* below 4 */
} roda_step;

/* What is said of one rank's schedule besides its steps. The caller fills it with what stands in comments. */
typedef struct roda_schedule {
  uint32_t struct_size;
  int32_t chunks;         /* 1; of the data of an allreduce or broadcast, the size of the group for the others */
  int32_t scratch_chunks; /* 0 */
  int32_t in_place;       /* 1; allreduce: the output holds the contribution at first, else the input does */
  int32_t reads_linger;   /* 0; 1: peers may read this rank's input when its schedule has ended */
} roda_schedule;

/* Adds a step to the end of a lane; lanes run side by side and share no data, and are numbered from 0. */
typedef void (*roda_add_step)(void* sink, int32_t lane, const roda_step* step);

typedef struct roda_algorithm {
  uint32_t struct_size;
  int32_t collective;  /* roda_collective: one that reduces, gathers or moves data, or a barrier */
  const char* name;    /* what HOROVOD_SELECT names it by: lower case letters, digits and '_' */
  const char* summary; /* one line */
  int32_t (*accepts)(int32_t size);
  /* The schedule of a rank; broadcasts have root 0. A code below 0, with a reason, where there is none. */
  int32_t (*make)(int32_t rank, int32_t size, roda_schedule* schedule, roda_add_step add, void* sink,
                  roda_error* error);
} roda_algorithm;

/* One option that the selection weighs. */
typedef struct roda_candidate {
  uint32_t struct_size;
  int32_t collective;
  uint64_t bytes;
  int32_t ranks;
  int32_t hosts;
  const char* transport; /* or "levels", for a composition */
  const char* algorithm;
  double seconds; /* what the model predicts; below 0: nothing */
} roda_candidate;

typedef struct roda_algorithms {
  uint32_t struct_size;
  uint32_t abi_version;
  const char* name;        /* the plugin's, as its roda_plugin_info has it */
  const char* description; /* one line */
  int32_t num_algorithms;
  const roda_algorithm* const* algorithms;
  /* OPTIONAL: rules for the selection, in the grammar of HOROVOD_SELECT. They come after the user's, before ours. */
  const char* rules;
  /* OPTIONAL: seconds that the candidate takes, in place of the model's; below 0: the model is right. */
  double (*cost)(const roda_candidate* candidate);
} roda_algorithms;

typedef const roda_algorithms* (*roda_algorithms_entry)(void);
