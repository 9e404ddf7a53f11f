/* Every collective of roda.h, once, from C. Run it with any number of ranks:
 *   horovodrun -np 2 build/collectives
 * Ends with 0 when every result is what it must be. */
#include <roda/roda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

static void check(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "rank %d: %s is wrong\n", (int)roda_rank(), what);
  ++failures;
}

static roda_op make_op(int32_t collective, const char* name, const int64_t* shape, int32_t ndim, const void* input,
                       void* output) {
  roda_op op;
  memset(&op, 0, sizeof op);
  op.struct_size = sizeof op;
  op.collective = collective;
  op.name = name;
  op.dtype = RODA_FLOAT32;
  op.ndim = ndim;
  op.shape = shape;
  op.input = input;
  op.output = output;
  op.device = -1;
  op.op = RODA_SUM;
  op.prescale = op.postscale = 1;
  return op;
}

/* Submits a group of operations and waits for it. The handle is the caller's to release; 0 after an error. */
static roda_handle run(const roda_op* ops, int32_t count) {
  roda_error error;
  memset(&error, 0, sizeof error);
  error.struct_size = sizeof error;
  roda_handle handle = 0;
  int32_t code = roda_submit(ops, count, &handle, &error);
  if (code == RODA_OK) code = roda_wait(handle, &error);
  if (code == RODA_OK) return handle;
  fprintf(stderr, "rank %d: %s\n", (int)roda_rank(), error.message);
  ++failures;
  if (handle != 0) roda_release(handle);
  return 0;
}

/* The result that the engine owns, for the collectives whose output it allocates. */
static roda_output take(roda_handle handle, int32_t index, int32_t* splits, int32_t capacity) {
  roda_output output;
  memset(&output, 0, sizeof output);
  output.struct_size = sizeof output;
  output.received_splits = splits;
  output.received_splits_capacity = capacity;
  if (handle != 0) check(roda_get_output(handle, index, &output, NULL) == RODA_OK, "an output");
  return output;
}

/* Two tensors at once; they travel in one buffer and end together. */
static void reduce(int rank, int size) {
  float gradient[4] = {1, 2, 3, (float)rank};
  float loss = (float)rank;
  const int64_t four = 4;
  roda_op ops[2];
  ops[0] = make_op(RODA_ALLREDUCE, "gradient", &four, 1, gradient, gradient);
  ops[0].op = RODA_AVERAGE;
  ops[1] = make_op(RODA_ALLREDUCE, "loss", NULL, 0, &loss, &loss);
  ops[1].op = RODA_MAX;
  const roda_handle handle = run(ops, 2);
  check(gradient[1] == 2 && gradient[3] == (float)(size - 1) / 2, "the average");
  check(loss == (float)(size - 1), "the maximum");
  if (handle != 0) roda_release(handle);
}

/* Equal vectors are averaged, orthogonal ones added. Adasum needs a power of two of ranks. */
static void reduce_adaptively(int size) {
  if ((size & (size - 1)) != 0) return;
  float same[3] = {1, 2, 3};
  const int64_t three = 3;
  roda_op op = make_op(RODA_ALLREDUCE, "adaptive", &three, 1, same, same);
  op.op = RODA_ADASUM;
  const roda_handle handle = run(&op, 1);
  check(same[0] == 1 && same[2] == 3, "the adaptive sum");
  if (handle != 0) roda_release(handle);
}

/* Rank r gives r + 1 rows of two. */
static void gather(int rank, int size) {
  float* rows = malloc((size_t)(rank + 1) * 2 * sizeof *rows);
  for (int i = 0; i < 2 * (rank + 1); ++i) rows[i] = (float)rank;
  const int64_t shape[2] = {rank + 1, 2};
  const roda_op op = make_op(RODA_ALLGATHER, "rows", shape, 2, rows, NULL);
  const roda_handle handle = run(&op, 1);
  const roda_output output = take(handle, 0, NULL, 0);
  const float* all = output.data;
  check(output.ndim == 2 && output.shape[0] == (int64_t)size * (size + 1) / 2, "the number of rows");
  check(all != NULL && all[0] == 0 && all[output.shape[0] * 2 - 1] == (float)(size - 1), "the rows");
  roda_output_release(output.owner);
  if (handle != 0) roda_release(handle);
  free(rows);
}

static void broadcast(int rank, int size) {
  float parameters[2] = {(float)rank, (float)rank};
  const int64_t two = 2;
  roda_op op = make_op(RODA_BROADCAST, "parameters", &two, 1, parameters, parameters);
  op.root = size - 1;
  const roda_handle handle = run(&op, 1);
  check(parameters[0] == (float)(size - 1), "what the root said");
  if (handle != 0) roda_release(handle);
}

/* Every rank sends one row to each: number r of the result came from rank r. */
static void swap(int rank, int size) {
  float* rows = malloc((size_t)size * sizeof *rows);
  int32_t* splits = malloc((size_t)size * sizeof *splits);
  for (int to = 0; to < size; ++to) rows[to] = (float)(100 * rank + to);
  const int64_t shape = size;
  const roda_op op = make_op(RODA_ALLTOALL, "swap", &shape, 1, rows, NULL);
  const roda_handle handle = run(&op, 1);
  const roda_output output = take(handle, 0, splits, size);
  const float* received = output.data;
  for (int from = 0; from < size && received != NULL; ++from) {
    check(received[from] == (float)(100 * from + rank) && splits[from] == 1, "what came from a rank");
  }
  roda_output_release(output.owner);
  if (handle != 0) roda_release(handle);
  free(rows);
  free(splits);
}

static void scatter(int rank, int size) {
  float* rows = malloc((size_t)size * sizeof *rows);
  for (int i = 0; i < size; ++i) rows[i] = (float)i;
  const int64_t shape = size;
  const roda_op op = make_op(RODA_REDUCESCATTER, "slices", &shape, 1, rows, NULL);
  const roda_handle handle = run(&op, 1);
  const roda_output output = take(handle, 0, NULL, 0);
  check(output.shape[0] == 1 && *(const float*)output.data == (float)(rank * size), "the slice");
  roda_output_release(output.owner);
  if (handle != 0) roda_release(handle);
  free(rows);
}

/* The even ranks among themselves. */
static void use_process_set(int rank, int size, int32_t set) {
  if (rank % 2 != 0) return;
  float one = 1;
  roda_op op = make_op(RODA_ALLREDUCE, "of the even", NULL, 0, &one, &one);
  op.process_set = set;
  const roda_handle handle = run(&op, 1);
  check(one == (float)((size + 1) / 2), "the sum over the process set");
  if (handle != 0) roda_release(handle);
}

/* Rank r has r + 1 batches; who runs out of them joins, and gives zeros to the others' sums. */
static void train_unevenly(int rank, int size) {
  for (int batch = 0; batch <= rank; ++batch) {
    float one = 1;
    const roda_op op = make_op(RODA_ALLREDUCE, "batch", NULL, 0, &one, &one);
    const roda_handle handle = run(&op, 1);
    check(one == (float)(size - batch), "the sum over those that still have a batch");
    if (handle != 0) roda_release(handle);
  }
  const roda_op op = make_op(RODA_JOIN, NULL, NULL, 0, NULL, NULL);
  const roda_handle handle = run(&op, 1);
  check(take(handle, 0, NULL, 0).value == size - 1, "who joined last");
  if (handle != 0) roda_release(handle);
}

/* Ranks that disagree are all told so, and go on. */
static void disagree(int rank, int size) {
  float data[4] = {0};
  const int64_t shape = rank == 0 ? 3 : 4;
  const roda_op op = make_op(RODA_ALLREDUCE, "disputed", &shape, 1, data, data);
  roda_error error;
  memset(&error, 0, sizeof error);
  error.struct_size = sizeof error;
  roda_handle handle = 0;
  check(roda_submit(&op, 1, &handle, &error) == RODA_OK, "the submission");
  const int32_t code = roda_wait(handle, &error);
  check(size == 1 ? code == RODA_OK : code == RODA_ERR_PRECONDITION, "the outcome of a dispute");
  if (rank == 0 && size > 1) printf("as it should be: %s\n", error.message);
  roda_release(handle);
}

int main(void) {
  int32_t even[512];
  int32_t count = 0;
  roda_error error;
  memset(&error, 0, sizeof error);
  error.struct_size = sizeof error;
  if (roda_init(NULL, &error) != RODA_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 2;
  }
  const int rank = roda_rank(), size = roda_size();
  reduce(rank, size);
  reduce_adaptively(size);
  gather(rank, size);
  broadcast(rank, size);
  swap(rank, size);
  scatter(rank, size);
  disagree(rank, size);
  train_unevenly(rank, size);
  for (int32_t r = 0; r < size && count < 512; r += 2) even[count++] = r;
  /* A set of all ranks exists already: number 0. Others need HOROVOD_DYNAMIC_PROCESS_SETS=1. */
  const int32_t set = size == 1 ? 0 : roda_add_process_set(even, count);
  if (set >= 0) use_process_set(rank, size, set);
  if (set > 0) check(roda_remove_process_set(set) == set, "the removal of the process set");
  const roda_op barrier = make_op(RODA_BARRIER, NULL, NULL, 0, NULL, NULL);
  const roda_handle handle = run(&barrier, 1);
  if (handle != 0) roda_release(handle);
  if (rank == 0) printf("%d ranks, %s\n", size, failures == 0 ? "all as it should be" : "something is wrong");
  roda_shutdown();
  return failures == 0 ? 0 : 1;
}
