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

/* What may be done with elements of a dtype, besides letting them travel. */
typedef enum roda_dtype_trait {
  RODA_INTEGER = 1u << 0, /* whole numbers: sums come to the same in any order, averages are cut off */
  RODA_FLOAT = 1u << 1,   /* sums are rounded, so their order shows */
  RODA_REDUCES = 1u << 2, /* has sums, products, minima and maxima */
  RODA_SCALES = 1u << 3,  /* may be averaged, and multiplied with a factor */
} roda_dtype_trait;

/* The table of dtypes: X(symbol, number, name, bytes, traits, DLPack's type code). Numbers 0 to 9 are Horovod's wire
 * values; none ever changes. Truth values and float8 are bytes to DLPack: older frameworks know no other way. A float8
 * travels and nothing else: a sum of a few of them fits none, so they are not reduced. */
#define RODA_DTYPES(X)                                                       \
  X(UINT8, 0, "uint8", 1, RODA_INTEGER | RODA_REDUCES | RODA_SCALES, 1)      \
  X(INT8, 1, "int8", 1, RODA_INTEGER | RODA_REDUCES | RODA_SCALES, 0)        \
  X(UINT16, 2, "uint16", 2, RODA_INTEGER | RODA_REDUCES | RODA_SCALES, 1)    \
  X(INT16, 3, "int16", 2, RODA_INTEGER | RODA_REDUCES | RODA_SCALES, 0)      \
  X(INT32, 4, "int32", 4, RODA_INTEGER | RODA_REDUCES | RODA_SCALES, 0)      \
  X(INT64, 5, "int64", 8, RODA_INTEGER | RODA_REDUCES | RODA_SCALES, 0)      \
  X(FLOAT16, 6, "float16", 2, RODA_FLOAT | RODA_REDUCES | RODA_SCALES, 2)    \
  X(FLOAT32, 7, "float32", 4, RODA_FLOAT | RODA_REDUCES | RODA_SCALES, 2)    \
  X(FLOAT64, 8, "float64", 8, RODA_FLOAT | RODA_REDUCES | RODA_SCALES, 2)    \
  X(BOOL, 9, "bool", 1, RODA_REDUCES, 1)                                     \
  X(BFLOAT16, 10, "bfloat16", 2, RODA_FLOAT | RODA_REDUCES | RODA_SCALES, 4) \
  X(FLOAT8_E4M3FN, 11, "float8_e4m3fn", 1, RODA_FLOAT, 1)                    \
  X(FLOAT8_E5M2, 12, "float8_e5m2", 1, RODA_FLOAT, 1)

typedef enum roda_dtype {
#define RODA_ENTRY(symbol, number, name, bytes, traits, dlpack) RODA_##symbol = number,
  RODA_DTYPES(RODA_ENTRY)
#undef RODA_ENTRY
#define RODA_ENTRY(symbol, number, name, bytes, traits, dlpack) +1
      RODA_DTYPE_COUNT = RODA_DTYPES(RODA_ENTRY)
#undef RODA_ENTRY
} roda_dtype;

/* Values are Horovod's; they never change. */
typedef enum roda_reduce_op {
  RODA_AVERAGE = 0, /* never reaches a plugin unless its support matrix lists it: the engine sums and scales */
  RODA_SUM = 1,
  RODA_ADASUM = 2,
  RODA_MIN = 3,
  RODA_MAX = 4,
  RODA_PRODUCT = 5,
  RODA_REDUCE_OP_COUNT = 6,
} roda_reduce_op;

/* How much of a collective's data one rank has, as input or as output. */
typedef enum roda_extent {
  RODA_NOTHING = 0,
  RODA_WHOLE = 1,     /* a tensor of one shape on all ranks, which may be cut anywhere */
  RODA_OWN_PART = 2,  /* this rank's part */
  RODA_ALL_PARTS = 3, /* one part for, or from, each rank */
} roda_extent;

typedef enum roda_collective_trait {
  RODA_RUNS = 1u << 0,      /* a transport or an algorithm does something for it */
  RODA_SUBMITTED = 1u << 1, /* callers name it; Adasum is an op of theirs instead */
  RODA_COMBINES = 1u << 2,  /* elements of all ranks become one: it has an op and factors */
  RODA_SUMS_ONLY = 1u << 3, /* of the ops it has sum and average alone, as in Horovod */
  RODA_ROOTED = 1u << 4,    /* one rank gives what all get; or, of what is combined, it alone gets it */
  RODA_FUSES = 1u << 5,     /* small tensors of it travel together, in one buffer */
  RODA_JOINS = 1u << 6,     /* a rank that has joined takes part with zeros */
} roda_collective_trait;

/* The table of collectives: X(symbol, C++ name, number, name on the wire, name for users, name that begins errors,
 * input, output, traits). Numbers never change. */
#define RODA_COLLECTIVES(X)                                                                                            \
  X(ALLREDUCE, Allreduce, 0, "ALLREDUCE", "allreduce", "Allreduce", RODA_WHOLE, RODA_WHOLE,                            \
    RODA_RUNS | RODA_SUBMITTED | RODA_COMBINES | RODA_FUSES | RODA_JOINS)                                              \
  X(ALLGATHER, Allgather, 1, "ALLGATHER", "allgather", "Allgather", RODA_OWN_PART, RODA_ALL_PARTS,                     \
    RODA_RUNS | RODA_SUBMITTED | RODA_FUSES)                                                                           \
  X(BROADCAST, Broadcast, 2, "BROADCAST", "broadcast", "Broadcast", RODA_WHOLE, RODA_WHOLE,                            \
    RODA_RUNS | RODA_SUBMITTED | RODA_ROOTED | RODA_FUSES)                                                             \
  X(JOIN, Join, 3, "JOIN", "join", "Join", RODA_NOTHING, RODA_NOTHING, RODA_SUBMITTED)                                 \
  X(ADASUM_ALLREDUCE, Adasum, 4, "ADASUM", "adasum", "Adasum", RODA_WHOLE, RODA_WHOLE,                                 \
    RODA_RUNS | RODA_COMBINES | RODA_FUSES | RODA_JOINS)                                                               \
  X(ALLTOALL, Alltoall, 5, "ALLTOALL", "alltoall", "Alltoall", RODA_ALL_PARTS, RODA_ALL_PARTS,                         \
    RODA_RUNS | RODA_SUBMITTED)                                                                                        \
  X(BARRIER, Barrier, 6, "BARRIER", "barrier", "Barrier", RODA_NOTHING, RODA_NOTHING, RODA_RUNS | RODA_SUBMITTED)      \
  X(REDUCESCATTER, ReduceScatter, 7, "REDUCESCATTER", "reducescatter", "Reducescatter", RODA_ALL_PARTS, RODA_OWN_PART, \
    RODA_RUNS | RODA_SUBMITTED | RODA_COMBINES | RODA_SUMS_ONLY | RODA_FUSES)                                          \
  X(REDUCE, Reduce, 8, "REDUCE", "reduce", "Reduce", RODA_WHOLE, RODA_WHOLE,                                           \
    RODA_RUNS | RODA_SUBMITTED | RODA_COMBINES | RODA_ROOTED)

typedef enum roda_collective {
#define RODA_ENTRY(symbol, cpp, number, wire, users, title, input, output, traits) RODA_##symbol = number,
  RODA_COLLECTIVES(RODA_ENTRY)
#undef RODA_ENTRY
#define RODA_ENTRY(symbol, cpp, number, wire, users, title, input, output, traits) +1
      RODA_COLLECTIVE_COUNT = RODA_COLLECTIVES(RODA_ENTRY)
#undef RODA_ENTRY
} roda_collective;

/* How float32 data may travel in messages between hosts: in blocks of so many elements that share a scale, which comes
 * first, in so many bytes. `error`: the most that one element is off by, as a share of its block's largest magnitude
 * (float16: and 3e-8 more). A last block that is short has its own bytes alone, of int4 as many as any.
 *
 *   bf16, fp16   the 16-bit floats; infinities and NaNs stay, fp16 makes infinity of what is past 65504
 *   fp8          e4m3 times a power of two
 *   int8         -127..127 times a scale of 16 significant bits
 *   int4         -7..7 times a scale in bfloat16; element i in the low half of byte i, i + 16 in the high one
 *
 * In blocks of the last three a NaN, an infinity or a magnitude above 3e38 makes all of it NaN, and magnitudes below
 * 2^-100 alone make all of it zero. What was decoded encodes to the same bytes again. Stochastic ones round up as often
 * as the rest is near the next value above; the others to the nearest, halves to even. */
#define RODA_WIRE_FORMATS(X)                                     \
  X(NONE, 0, "none", 1, 0, 32, 0, 0.0)                           \
  X(BF16, 1, "bf16", 1, 0, 16, 0, 0.003907)                      \
  X(FP16, 2, "fp16", 1, 0, 16, 0, 0.0004884)                     \
  X(FP8, 3, "fp8", 256, 4, 8, 0, 0.0626)                         \
  X(INT8, 4, "int8", 256, 4, 8, 0, 0.00394)                      \
  X(INT4, 5, "int4", 32, 2, 4, 0, 0.0721)                        \
  X(BF16_STOCHASTIC, 6, "bf16_stochastic", 1, 0, 16, 1, 0.0079)  \
  X(INT8_STOCHASTIC, 7, "int8_stochastic", 256, 4, 8, 1, 0.0079) \
  X(INT4_STOCHASTIC, 8, "int4_stochastic", 32, 2, 4, 1, 0.1441)

typedef enum roda_wire_format {
#define RODA_ENTRY(symbol, number, name, block, scale, bits, is_stochastic, error) RODA_WIRE_##symbol = number,
  RODA_WIRE_FORMATS(RODA_ENTRY)
#undef RODA_ENTRY
#define RODA_ENTRY(symbol, number, name, block, scale, bits, is_stochastic, error) +1
      RODA_WIRE_FORMAT_COUNT = RODA_WIRE_FORMATS(RODA_ENTRY)
#undef RODA_ENTRY
} roda_wire_format;

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

#ifdef __cplusplus
#define RODA_TABLE inline constexpr
#define RODA_LOOKUP constexpr
#else
#define RODA_TABLE static const
#define RODA_LOOKUP static inline
#endif

typedef struct roda_dtype_entry {
  const char* name;
  uint8_t bytes;
  uint8_t traits; /* roda_dtype_trait */
  uint8_t dlpack;
} roda_dtype_entry;

/* By number; the last entry is what lookups answer for unknown dtypes. */
RODA_TABLE roda_dtype_entry roda_dtypes[] = {
#define RODA_ENTRY(symbol, number, name, bytes, traits, dlpack) {name, bytes, traits, dlpack},
    RODA_DTYPES(RODA_ENTRY)
#undef RODA_ENTRY
        {"?", 0, 0, 0},
};

typedef struct roda_collective_entry {
  const char* name;  /* "ALLREDUCE" */
  const char* users; /* "allreduce": for users, in tables and in plans */
  const char* title; /* "Allreduce" */
  uint8_t input;     /* roda_extent */
  uint8_t output;
  uint16_t traits; /* roda_collective_trait */
} roda_collective_entry;

RODA_TABLE roda_collective_entry roda_collectives[] = {
#define RODA_ENTRY(symbol, cpp, number, wire, users, title, input, output, traits) \
  {wire, users, title, input, output, traits},
    RODA_COLLECTIVES(RODA_ENTRY)
#undef RODA_ENTRY
        {"?", "?", "Operation", RODA_NOTHING, RODA_NOTHING, 0},
};

typedef struct roda_wire_format_entry {
  const char* name;
  uint16_t block;
  uint8_t scale;
  uint8_t bits; /* of an element */
  uint8_t is_stochastic;
  double error;
} roda_wire_format_entry;

RODA_TABLE roda_wire_format_entry roda_wire_formats[] = {
#define RODA_ENTRY(symbol, number, name, block, scale, bits, is_stochastic, error) \
  {name, block, scale, bits, is_stochastic, error},
    RODA_WIRE_FORMATS(RODA_ENTRY)
#undef RODA_ENTRY
};

/* Bytes of a message of so many elements in a known format. */
RODA_LOOKUP size_t roda_wire_bytes(int32_t format, size_t elements) {
  const roda_wire_format_entry* entry = &roda_wire_formats[format];
  const size_t blocks = (elements + entry->block - 1) / entry->block;
  return blocks * entry->scale + (entry->bits < 8 ? blocks * entry->block : elements) * entry->bits / 8;
}

RODA_LOOKUP const roda_dtype_entry* roda_dtype_of(int32_t dtype) {
  return &roda_dtypes[dtype >= 0 && dtype < RODA_DTYPE_COUNT ? dtype : RODA_DTYPE_COUNT];
}

RODA_LOOKUP const roda_collective_entry* roda_collective_of(int32_t collective) {
  return &roda_collectives[collective >= 0 && collective < RODA_COLLECTIVE_COUNT ? collective : RODA_COLLECTIVE_COUNT];
}

/* Bytes of one element; 0 for an unknown dtype. */
RODA_LOOKUP size_t roda_dtype_size(int32_t dtype) { return roda_dtype_of(dtype)->bytes; }

/* The name that errors print; "?" for an unknown dtype. */
RODA_LOOKUP const char* roda_dtype_name(int32_t dtype) { return roda_dtype_of(dtype)->name; }

/* Whether the dtype, or the collective, has all of these traits. */
RODA_LOOKUP int roda_dtype_is(int32_t dtype, uint32_t traits) {
  return (roda_dtype_of(dtype)->traits & traits) == traits;
}
RODA_LOOKUP int roda_collective_is(int32_t collective, uint32_t traits) {
  return (roda_collective_of(collective)->traits & traits) == traits;
}

RODA_LOOKUP const char* roda_collective_name(int32_t collective) { return roda_collective_of(collective)->name; }

static inline const char* roda_reduce_op_name(int32_t op) {
  static const char* const names[RODA_REDUCE_OP_COUNT] = {"average", "sum", "adasum", "min", "max", "product"};
  return op >= 0 && op < RODA_REDUCE_OP_COUNT ? names[op] : "?";
}
