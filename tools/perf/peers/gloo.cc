// gloo::allreduce over TCP, measured as roda-perf measures.
//
// One process per rank, with PEER_RANK, PEER_SIZE and PEER_STORE (an empty folder that all ranks see) in the
// environment, and PEER_INTERFACE where it is not the loopback that connects them.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "tools/perf/peers/peer.h"

namespace {

std::shared_ptr<gloo::rendezvous::Context> connect(int rank, int ranks, const char* store_folder) {
  gloo::transport::tcp::attr attributes;
  const char* interface = std::getenv("PEER_INTERFACE");
  if (interface != nullptr) {
    attributes.iface = interface;
  } else {
    attributes.hostname = "127.0.0.1";
  }
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(store_folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  return context;
}

void allreduce(const std::shared_ptr<gloo::Context>& context, float* data, std::size_t count) {
  gloo::AllreduceOptions options(context);
  options.setOutput(data, count);
  void (*sum)(void*, const void*, const void*, std::size_t) = &gloo::sum<float>;
  options.setReduceFunction(sum);
  gloo::allreduce(options);
}

}  // namespace

int main(int argc, char** argv) {
  const char* rank_text = std::getenv("PEER_RANK");
  const char* size_text = std::getenv("PEER_SIZE");
  const char* store = std::getenv("PEER_STORE");
  if (rank_text == nullptr || size_text == nullptr || store == nullptr) {
    std::fprintf(stderr, "PEER_RANK, PEER_SIZE and PEER_STORE must be set\n");
    return 2;
  }
  const int rank = std::atoi(rank_text), ranks = std::atoi(size_text);
  const roda::peers::Request request = roda::peers::parse_request(argc, argv);
  const auto context = connect(rank, ranks, store);
  return roda::peers::measure("gloo", request, rank, ranks,
                              [&](float* data, std::size_t count) { allreduce(context, data, count); });
}
