// From the engine's error values to Python exceptions.
#pragma once

#include <roda/abi/types.h>

namespace roda::python {

inline roda_error make_error() {
  roda_error error;
  error.struct_size = sizeof(roda_error);
  error.code = RODA_OK;
  error.rank = -1;
  error.message[0] = '\0';
  return error;
}

// Sets the Python exception for `code` and throws: ValueError for RODA_ERR_INVALID, HorovodInternalError (of
// horovod.common.exceptions) for everything else. Call with the GIL held.
[[noreturn]] void raise_error(int code, const roda_error& error);

// Throws when `code` is a failure.
inline void check(int code, const roda_error& error) {
  if (code < 0) raise_error(code, error);
}

}  // namespace roda::python
