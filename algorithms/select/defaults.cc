#include "algorithms/select/table.h"

namespace roda::select {
namespace {

// One-sided first where memory can be read directly; a transport's own collective for large data; then messages: few
// rounds for small data, few bytes for large. The last rule of each collective is for whatever else there is.
//
// Between hosts our own sockets come first: on hosts joined by Ethernet they are faster than what libraries make of
// TCP.
//
// Ranks on several hosts go by levels wherever the ranks of a host have something faster than the network between them.
//
// On devices: what works on their memory. What is staged through host memory goes by the rules for that. No card has
// shown a composition to be faster than a library alone, so none comes first unasked.
//
// The last options are for RODA_DETERMINISTIC, which excludes those before them.
//
// MPI's own reduce is behind ours at every size: each of its many rounds waits until both ends call MPI again.
//
// oneshot makes every rank read everybody's data, so its limit falls as ranks rise.
constexpr const char* kDefaults = R"(
allreduce@host:0-64K[1-8] = */oneshot
allreduce@host:0-16K[9-32] = */oneshot
allreduce@host:0-4K[33-] = */oneshot
allreduce@host:0-16K = levels/two_step
allreduce@host = levels/hierarchical
allreduce@host:0-64K = */direct, tcp/recursive_doubling, */recursive_doubling, */native
allreduce@host:64K-512K = */direct, tcp/rabenseifner, */rabenseifner, */native
allreduce@host:512K-inf = */direct, tcp/ring, */native, */ring
allreduce@cuda = */native, levels/hierarchical
allreduce = */native, */ring, */recursive_doubling, */direct, */twoshot, tcp/ordered, */ordered

broadcast@host = levels/hierarchical
broadcast@host:0-64K = */direct, tcp/binomial, */binomial, */native
broadcast@host:64K-inf = */direct, tcp/double_binary_tree, */native, */double_binary_tree
broadcast@cuda = */native, levels/hierarchical
broadcast = */native, */double_binary_tree, */binomial, */direct

allgather@host = levels/hierarchical
allgather@host:0-64K = */direct, tcp/bruck, */bruck, */native
allgather@host:64K-inf = */direct, tcp/ring, */native, */ring
allgather@cuda = */native, levels/hierarchical
allgather = */native, */ring, */bruck, */direct

reduce@host = levels/hierarchical
reduce@host:0-64K = */direct, tcp/binomial, */binomial, */native
reduce@host:64K-4M[1-4] = */direct, tcp/binomial, */binomial, */native
reduce@host:64K-inf = */direct, tcp/double_binary_tree, */double_binary_tree, */native
reduce@cuda = */native, levels/hierarchical
reduce = */native, */double_binary_tree, */binomial, */direct, tcp/ordered, */ordered

reducescatter@host = levels/hierarchical
reducescatter@host:0-64K = */direct, tcp/recursive_halving, */recursive_halving, */native
reducescatter@host:64K-inf = */direct, tcp/ring, */native, */ring
reducescatter@cuda = */native, levels/hierarchical
reducescatter = */native, */ring, */pairwise, */direct, */direct_ordered, tcp/ordered, */ordered

alltoall@host = */direct, tcp/pairwise, */native, */pairwise
alltoall@cuda = */native, levels/hierarchical
alltoall = */native, */pairwise, */direct

adasum = levels/between_hosts, shm/vector_halving, tcp/vector_halving, */vector_halving

barrier = */signal, tcp/dissemination, */dissemination, */native
)";

}  // namespace

const Table& Table::defaults() {
  static const Table table = *parse(kDefaults, nullptr);
  return table;
}

std::string rules_in_format(const std::string& format) {
  const std::string ring = "tcp/ring/" + format + ", */ring/" + format;
  const std::string sums = "@between = tcp/ordered/" + format + ", */ordered/" + format + ", " + ring;
  return "allreduce" + sums + "; reducescatter" + sums + "; allgather@between = " + ring;
}

}  // namespace roda::select
