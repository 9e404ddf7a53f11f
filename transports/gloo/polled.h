// Asking one of Gloo's buffers whether it is done, without waiting.
//
// Gloo offers no call for that: its waits either sleep or, when they time out, break every connection. But the counters
// that its waits look at are declared in an installed header, for classes that derive from its buffer.
#pragma once

#include <gloo/transport/unbound_buffer.h>

namespace roda::gloo {

// Take one completed operation from the buffer's count; false when none has completed yet. `buffer` belongs to a TCP
// device. Any thread.
bool take_sent(::gloo::transport::UnboundBuffer& buffer);
bool take_received(::gloo::transport::UnboundBuffer& buffer);
// Throws what the buffer's connection ended with while an operation on it was pending.
void throw_if_failed(::gloo::transport::UnboundBuffer& buffer);

}  // namespace roda::gloo
