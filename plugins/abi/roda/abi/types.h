/* Plain types shared by every C surface of Roda: codes, dtypes, reduce ops, collectives, memory, errors.
 *
 * Part of the plugin ABI. Nothing here changes value or layout within one RODA_ABI_VERSION; structs that may grow carry
 * their size first. No C++ type, exception or allocation crosses this border.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define RODA_ABI_VERSION 2u

/* Outcome of a call. Zero and positive values are not failures. */
typedef enum roda_code {
  RODA_OK = 0,
  RODA_IN_PROGRESS = 1, /* not finished: test again */
  RODA_AGAIN = 2,       /* back-pressure: nothing was started, progress and retry */

  RODA_ERR_UNKNOWN = -1,
  RODA_ERR_PRECONDITION = -2, /* ranks disagree, or the engine is not in a state that allows the call */
  RODA_ERR_ABORTED = -3,      /* ended by an abort; the message carries the first cause */
  RODA_ERR_INVALID = -4,      /* an argument is wrong */
  RODA_ERR_UNSUPPORTED = -5,  /* this plugin does not offer the service */
  RODA_ERR_UNAVAILABLE = -6,  /* not usable on this machine; the message says why */
  RODA_ERR_TIMEOUT = -7,
  RODA_ERR_PEER = -8, /* a peer died or its connection broke; `rank` in roda_error names it */
  RODA_ERR_NO_MEMORY = -9,
  RODA_ERR_SYSTEM = -10, /* a system call failed; the message carries errno's text */
  RODA_ERR_AUTH = -11,   /* the other side did not prove knowledge of the job's secret */
} roda_code;

/* Values 0..9 and the reduce ops are Horovod's wire values; they never change. */
typedef enum roda_dtype {
  RODA_UINT8 = 0,
  RODA_INT8 = 1,
  RODA_UINT16 = 2,
  RODA_INT16 = 3,
  RODA_INT32 = 4,
  RODA_INT64 = 5,
  RODA_FLOAT16 = 6,
  RODA_FLOAT32 = 7,
  RODA_FLOAT64 = 8,
  RODA_BOOL = 9,
  RODA_BFLOAT16 = 10,
  RODA_DTYPE_COUNT = 11,
} roda_dtype;

typedef enum roda_reduce_op {
  RODA_AVERAGE = 0, /* never reaches a plugin unless its support matrix lists it: the engine sums and scales */
  RODA_SUM = 1,
  RODA_ADASUM = 2,
  RODA_MIN = 3,
  RODA_MAX = 4,
  RODA_PRODUCT = 5,
  RODA_REDUCE_OP_COUNT = 6,
} roda_reduce_op;

typedef enum roda_collective {
  RODA_ALLREDUCE = 0,
  RODA_ALLGATHER = 1,
  RODA_BROADCAST = 2,
  RODA_JOIN = 3,
  RODA_ADASUM_ALLREDUCE = 4,
  RODA_ALLTOALL = 5,
  RODA_BARRIER = 6,
  RODA_REDUCESCATTER = 7,
  RODA_COLLECTIVE_COUNT = 8,
} roda_collective;

typedef enum roda_memory_kind {
  RODA_MEMORY_HOST = 0,
  RODA_MEMORY_CUDA = 1,
  RODA_MEMORY_KIND_COUNT = 2,
} roda_memory_kind;

/* A range of memory as a transport or device sees it. `owner` is private to whoever allocated it. */
typedef struct roda_memory {
  uint32_t struct_size;
  int32_t kind;   /* roda_memory_kind */
  int32_t device; /* -1 for host memory, else the device's index */
  int32_t reserved;
  void* address;
  size_t length; /* bytes */
  void* owner;
} roda_memory;

/* Filled by a failing call when the caller passed one. The text names what was wrong, where, and what to do next. */
typedef struct roda_error {
  uint32_t struct_size;
  int32_t code; /* roda_code */
  int32_t rank; /* the world rank the error originates from, -1 if unknown */
  char message[1012];
} roda_error;

/* Bytes of one element; 0 for an unknown dtype. */
static inline size_t roda_dtype_size(int32_t dtype) {
  static const unsigned char sizes[RODA_DTYPE_COUNT] = {1, 1, 2, 2, 4, 8, 2, 4, 8, 1, 2};
  return dtype >= 0 && dtype < RODA_DTYPE_COUNT ? sizes[dtype] : 0;
}

/* The name that errors print; "?" for an unknown dtype. */
static inline const char* roda_dtype_name(int32_t dtype) {
  static const char* const names[RODA_DTYPE_COUNT] = {"uint8",   "int8",    "uint16",  "int16", "int32",   "int64",
                                                      "float16", "float32", "float64", "bool",  "bfloat16"};
  return dtype >= 0 && dtype < RODA_DTYPE_COUNT ? names[dtype] : "?";
}

static inline const char* roda_collective_name(int32_t collective) {
  static const char* const names[RODA_COLLECTIVE_COUNT] = {"ALLREDUCE", "ALLGATHER", "BROADCAST", "JOIN",
                                                           "ADASUM",    "ALLTOALL",  "BARRIER",   "REDUCESCATTER"};
  return collective >= 0 && collective < RODA_COLLECTIVE_COUNT ? names[collective] : "?";
}

static inline const char* roda_reduce_op_name(int32_t op) {
  static const char* const names[RODA_REDUCE_OP_COUNT] = {"average", "sum", "adasum", "min", "max", "product"};
  return op >= 0 && op < RODA_REDUCE_OP_COUNT ? names[op] : "?";
}
