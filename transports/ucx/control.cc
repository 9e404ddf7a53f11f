#include "transports/ucx/control.h"

#include "transports/ucx/errors.h"

namespace roda::ucx {

void Outbox::on_taken(void* request, ucs_status_t, void* user) {
  auto* slot = static_cast<Slot*>(user);
  --slot->owner->untaken_;
  --*slot->untaken;
  slot->owner->free_.push_back(slot);
  ucp_request_free(request);
}

void Outbox::send(ucp_ep_h endpoint, const ControlHeader& header, const void* data, std::size_t bytes, int* untaken) {
  if (free_.empty()) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->owner = this;
    free_.push_back(slots_.back().get());
  }
  // UCX reads the header and the data until the callback.
  Slot* slot = free_.back();
  slot->untaken = untaken;
  slot->message.header = header;
  slot->message.data.assign(static_cast<const char*>(data), static_cast<const char*>(data) + bytes);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.user_data = slot;
  param.cb.send = &Outbox::on_taken;
  const ucs_status_ptr_t request = ucp_am_send_nbx(endpoint, kControlId, &slot->message.header, sizeof header,
                                                   slot->message.data.data(), bytes, &param);
  if (!UCS_PTR_IS_PTR(request)) return check(UCS_PTR_RAW_STATUS(request), "a control message could not be sent");
  free_.pop_back();
  ++untaken_;
  ++*untaken;
}

}  // namespace roda::ucx
