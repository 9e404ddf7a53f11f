#include "transports/ucx/flush.h"

namespace roda::ucx {

void Flush::start(ucp_ep_h endpoint) {
  ++started_;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.user_data = this;
  param.cb.send = [](void* request, ucs_status_t status, void* self) {
    static_cast<Flush*>(self)->end(status);
    ucp_request_free(request);
  };
  const ucs_status_ptr_t request = ucp_ep_flush_nbx(endpoint, &param);
  if (!UCS_PTR_IS_PTR(request)) end(UCS_PTR_RAW_STATUS(request));
}

}  // namespace roda::ucx
