/* The settings that a plugin reads through roda_host.knob, told to whoever lists them. OPTIONAL for a plugin. */
#pragma once

#include <roda/abi/types.h>

#define RODA_SETTINGS_SYMBOL "roda_settings_v1"

/* One setting. Texts live as long as the process. */
typedef struct roda_setting {
  uint32_t struct_size;
  int32_t is_number;        /* a whole number from least to most; else a text */
  const char* name;         /* RODA_TEST_*: an option of tests, not to be shown to users */
  const char* unit;         /* "" where there is none */
  const char* default_text; /* "": unset */
  int64_t least, most;
  const char* meaning; /* one sentence */
} roda_setting;

/* The setting of that index from 0 on, null after the last. Any thread. */
typedef const roda_setting* (*roda_settings_entry)(uint32_t index);
