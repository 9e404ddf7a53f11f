#include "algorithms/select/table.h"

namespace roda::select {
namespace {

// One-sided first where memory can be read directly; a transport's own collective for large data; then messages: few
// rounds for small data, few bytes for large. The last rule of each collective is for whatever else there is.
//
// Between hosts RDMA comes first where there is a device for it, then our own sockets: over Ethernet they are faster than
// what libraries make of TCP. Libraries that choose the network by themselves come in when they are named.
//
// oneshot makes every rank read everybody's data, so its limit falls as ranks rise.
constexpr const char* kDefaults = R"(
allreduce@host:0-64K[1-8] = shm/oneshot, loop/oneshot
allreduce@host:0-16K[9-32] = shm/oneshot, loop/oneshot
allreduce@host:0-4K[33-] = shm/oneshot, loop/oneshot
allreduce@host:0-64K = shm/direct, verbs/recursive_doubling, tcp/recursive_doubling, */direct, */recursive_doubling, */native
allreduce@host:64K-512K = shm/direct, verbs/rabenseifner, tcp/rabenseifner, */direct, */rabenseifner, */native
allreduce@host:512K-inf = shm/direct, verbs/ring, tcp/ring, */direct, */native, */ring
allreduce = */native, */ring, */recursive_doubling, */direct

broadcast@host:0-64K = shm/direct, verbs/binomial, tcp/binomial, */direct, */binomial, */native
broadcast@host:64K-inf = shm/direct, verbs/double_binary_tree, tcp/double_binary_tree, */direct, */native, */double_binary_tree
broadcast = */native, */double_binary_tree, */binomial, */direct

allgather@host:0-64K = shm/direct, verbs/bruck, tcp/bruck, */direct, */bruck, */native
allgather@host:64K-inf = shm/direct, verbs/ring, tcp/ring, */direct, */native, */ring
allgather = */native, */ring, */bruck, */direct

reducescatter@host:0-64K = shm/direct, verbs/recursive_halving, tcp/recursive_halving, */direct, */recursive_halving, */native
reducescatter@host:64K-inf = shm/direct, verbs/ring, tcp/ring, */direct, */native, */ring
reducescatter = */native, */ring, */pairwise, */direct

alltoall@host = shm/direct, verbs/pairwise, tcp/pairwise, */direct, */native, */pairwise
alltoall = */native, */pairwise, */direct

barrier = shm/signal, loop/signal, verbs/dissemination, tcp/dissemination, */signal, */dissemination, */native
)";

}  // namespace

const Table& Table::defaults() {
  static const Table table = *parse(kDefaults, nullptr);
  return table;
}

}  // namespace roda::select
