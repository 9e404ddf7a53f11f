#include "transports/ucx/flush.h"

#include "transports/ucx/control.h"

namespace roda::ucx {
namespace {

// Read by UCX for as long as the message is pending, so it lives for ever.
constexpr ControlHeader kNothing{Word::kNothing, 0, 0, 0, 0, 0};

}  // namespace

void Flush::on_end(void* request, ucs_status_t status, void* self) {
  static_cast<Flush*>(self)->end(status);
  ucp_request_free(request);
}

void Flush::start(ucp_ep_h endpoint) {
  ++started_;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.user_data = this;
  param.cb.send = &Flush::on_end;
  const ucs_status_ptr_t request =
      kind_ == Kind::kReach ? ucp_ep_flush_nbx(endpoint, &param)
                            : ucp_am_send_nbx(endpoint, kControlId, &kNothing, sizeof kNothing, nullptr, 0, &param);
  if (!UCS_PTR_IS_PTR(request)) end(UCS_PTR_RAW_STATUS(request));
}

}  // namespace roda::ucx
