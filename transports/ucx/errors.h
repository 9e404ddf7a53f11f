// UCX's status codes in the words and codes of the ABI.
#pragma once

#include <ucs/type/status.h>
#include <roda/sdk/error.hpp>

#include <string>

namespace roda::ucx {

inline int32_t code_of(ucs_status_t status) {
  switch (status) {
    case UCS_ERR_NO_MEMORY:
      return RODA_ERR_NO_MEMORY;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_REJECTED:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_IO_ERROR:
      return RODA_ERR_PEER;
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_NOT_IMPLEMENTED:
      return RODA_ERR_UNSUPPORTED;
    default:
      return RODA_ERR_UNKNOWN;
  }
}

inline sdk::Failure failure(ucs_status_t status, const std::string& what, int world_rank = -1) {
  return {code_of(status), "ucx: " + what + ": " + ucs_status_string(status), world_rank};
}

inline void check(ucs_status_t status, const std::string& what) {
  if (status != UCS_OK) throw failure(status, what);
}

}  // namespace roda::ucx
