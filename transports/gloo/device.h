// Which address Gloo listens on and connects from.
#pragma once

#include <gloo/transport/device.h>

#include <memory>
#include <string>

namespace roda::gloo {

// How far a group reaches. Members of one host talk over loopback: that works without a network, with any host name and
// behind any firewall, and nobody else can connect.
enum class Reach { kHost, kNetwork };

// A TCP device. `interfaces` is what HOROVOD_GLOO_IFACE says: names separated by commas, of which the first usable one
// is taken, or empty. Then kNetwork takes the address that the host's name resolves to if it is an address of this host
// and not loopback, else the first interface that is up, else loopback. Throws sdk::Failure only if nothing can be
// used, or none of the named interfaces. Any thread.
std::shared_ptr<::gloo::transport::Device> make_device(const std::string& interfaces, Reach reach);

}  // namespace roda::gloo
