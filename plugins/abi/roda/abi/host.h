/* What the core hands to a plugin: logging, knobs, host kernels, and the out-of-band exchange that groups form over. */
#pragma once

#include <roda/abi/types.h>

typedef enum roda_log_level {
  RODA_LOG_TRACE = 0,
  RODA_LOG_DEBUG = 1,
  RODA_LOG_INFO = 2,
  RODA_LOG_WARNING = 3,
  RODA_LOG_ERROR = 4,
} roda_log_level;

/* Services of the host process. Every entry may be called from any thread. The table outlives every context. */
typedef struct roda_host {
  uint32_t struct_size;
  uint32_t abi_version;
  void* self; /* passed back as first argument */

  void (*log)(void* self, int32_t level, const char* component, const char* text);

  /* The text of a HOROVOD_* or RODA_* setting, NULL when unset. Valid for the life of the process. */
  const char* (*knob)(void* self, const char* name);

  /* dst[i] = a[i] (op) b[i] over host memory; dst may alias a or b exactly. 16-bit floats accumulate in float.
   * Returns RODA_ERR_UNSUPPORTED for a dtype/op pair that has no meaning. */
  int32_t (*reduce)(void* self, void* dst, const void* a, const void* b, size_t count, int32_t dtype, int32_t op);

  /* memcpy that picks streaming stores for ranges too large to be read back from the cache soon. */
  void (*copy)(void* self, void* dst, const void* src, size_t bytes);
} roda_host;

/* Key-value exchange among the members of one group, as long as it lives. Non-blocking; any thread.
 * Keys are short text chosen by the plugin; values at most 64 KiB. A key is put once per rank and generation. */
typedef struct roda_exchange {
  uint32_t struct_size;
  uint32_t reserved;
  void* self;
  int32_t (*put)(void* self, const char* key, const void* value, size_t bytes, roda_error* error);
  /* The value that member `rank` (group rank) put under `key`. RODA_IN_PROGRESS until it is there; *bytes is the
   * capacity on entry and the value's length on RODA_OK. */
  int32_t (*get)(void* self, int32_t rank, const char* key, void* value, size_t* bytes, roda_error* error);
} roda_exchange;
