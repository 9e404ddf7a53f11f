/* An allreduce in which rank 0 adds everybody's data and sends the sum to everybody: few rounds, and all of the traffic
 * at one rank. The rules choose it for tiny tensors of a few ranks; the costs keep it away from large ones. */
#include <roda/abi/algorithms.h>
#include <roda/abi/transport.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static int32_t accepts(int32_t size) { return size >= 2 && size <= 16; }

static const roda_range kData = {RODA_SPACE_OUTPUT, 0, 1};

static void add_message(roda_add_step add, void* sink, int32_t kind, int32_t peer) {
  roda_step step;
  memset(&step, 0, sizeof step);
  step.kind = kind;
  step.peer = peer;
  if (kind != RODA_STEP_RECV) step.src = kData;
  if (kind != RODA_STEP_SEND) step.dst = kData;
  add(sink, 0, &step);
}

static int32_t make(int32_t rank, int32_t size, roda_schedule* schedule, roda_add_step add, void* sink,
                    roda_error* error) {
  (void)error;
  schedule->chunks = 1;
  if (rank != 0) {
    add_message(add, sink, RODA_STEP_SEND, 0);
    add_message(add, sink, RODA_STEP_RECV, 0);
    return RODA_OK;
  }
  for (int32_t peer = 1; peer < size; ++peer) add_message(add, sink, RODA_STEP_RECV_REDUCE, peer);
  for (int32_t peer = 1; peer < size; ++peer) add_message(add, sink, RODA_STEP_SEND, peer);
  return RODA_OK;
}

static const roda_algorithm kStar = {
    .struct_size = sizeof(roda_algorithm),
    .collective = RODA_ALLREDUCE,
    .name = "star",
    .summary = "rank 0 adds, and sends the sum to everybody",
    .accepts = accepts,
    .make = make,
};

static const roda_algorithm* const kAll[] = {&kStar};

/* A star of large tensors is slower than any model of one message makes it look. */
static double cost(const roda_candidate* candidate) {
  const int is_large = candidate->bytes > 4096;
  return strcmp(candidate->algorithm, "star") == 0 && is_large ? 3600.0 : -1.0;
}

static const roda_algorithms kTable = {
    .struct_size = sizeof(roda_algorithms),
    .abi_version = RODA_ABI_VERSION,
    .name = "star",
    .description = "an example: allreduce over a star",
    .num_algorithms = 1,
    .algorithms = kAll,
    .rules = "allreduce:0-256[2-4] = tcp/star",
    .cost = cost,
};

EXPORT const roda_plugin_info_t roda_plugin_info = {RODA_PLUGIN_MAGIC, RODA_ABI_VERSION, "algorithms", "star"};

EXPORT const roda_algorithms* roda_algorithms_v1(void) { return &kTable; }
