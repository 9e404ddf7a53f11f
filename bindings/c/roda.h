/* Roda's C API: the only way into the engine, for C, C++ and every language binding.
 *
 * All functions may be called from any thread unless they say otherwise. Functions that can fail return a roda_code
 * and, when `error` is not NULL, fill it (set error->struct_size first). Ranks, sizes and roots are world numbers
 * unless a process set is named.
 */
#pragma once

#include <roda/abi/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RODA_API __attribute__((visibility("default")))

RODA_API const char* roda_version(void);

/* --- life cycle ------------------------------------------------------------------------------------------------- */

typedef struct roda_init_options {
  uint32_t struct_size;
  int32_t num_ranks;        /* 0: every rank of the job */
  const int32_t* ranks;     /* subset of the launched processes that forms the world, in the order of its ranks */
  int32_t num_process_sets; /* static process sets, registered in order */
  int32_t reserved;
  const int32_t* process_set_sizes;
  const int32_t* process_set_ranks; /* concatenated */
  /* A communicator whose processes form the world, as the integer that MPI_Comm_c2f gives; it is duplicated. Only where
   * MPI brings the job together; not beside `ranks`. */
  int32_t has_communicator;
  int32_t communicator;
  /* Of the job's membership, the same on all its ranks; those of another generation are refused. 0: this process has
   * come as often to init as the others. */
  uint64_t generation;
} roda_init_options;

/* Collective over the job. Blocks until the engine runs or failed. A second call while running returns RODA_OK; in a
 * child that was forked from a process that has been here it is RODA_ERR_PRECONDITION. */
RODA_API int32_t roda_init(const roda_init_options* options, roda_error* error);
/* Stops the engine on every rank of the job: pending operations end with an error. Blocks; init may follow again. */
RODA_API void roda_shutdown(void);
/* The same, and what ranks that still wait are told of it, behind this rank's number: "called hvd.shutdown()", "ended
 * with status 3". UTF-8, cut after 700 bytes. */
RODA_API void roda_shutdown_because(const char* how);

/* --- the end of a program that can't go on ------------------------------------------------------------------------ */

/* Ends the job on every rank at once, because this process is about to end for an error: all operations end with
 * "Rank 1 (host) " and `how`: "ended with ValueError: bad label 17 (train.py:57)"; UTF-8, cut after 700 bytes. The
 * first cause of a job stays. Blocks until this rank's engine has ended, HOROVOD_ABORT_TIMEOUT_SECONDS at most;
 * roda_shutdown may follow. Nothing where no engine runs. */
RODA_API void roda_abort(const char* how);
/* What ended this process's engine, or will: its code, and in `error` the text that operations end with and the rank it
 * came from. RODA_OK: nothing did. Until the next init. */
RODA_API int32_t roda_end_cause(roda_error* error);
/* Waits until the process of another rank of this host is gone, for so many microseconds at most: 1 gone, 0 not yet,
 * RODA_ERR_UNAVAILABLE: it runs on another host. For those that end for another's error, and should not be seen to end
 * first. */
RODA_API int32_t roda_await_process_end(int32_t rank, int64_t microseconds);
/* 1 when this thread has ever submitted an operation. */
RODA_API int32_t roda_thread_has_submitted(void);

RODA_API int32_t roda_is_initialized(void);
/* Who started this process as a part of a job, as the environment says: "horovodrun" (or whoever sets its variables),
 * "torchrun", "srun", ...; "" when nobody did. To be given back by roda_free_text. */
RODA_API char* roda_launcher(void);

/* -1 before init. */
RODA_API int32_t roda_rank(void);
RODA_API int32_t roda_size(void);
RODA_API int32_t roda_local_rank(void);
RODA_API int32_t roda_local_size(void);
RODA_API int32_t roda_cross_rank(void);
RODA_API int32_t roda_cross_size(void);
RODA_API int32_t roda_is_homogeneous(void);
RODA_API int32_t roda_host_cores(void); /* that the ranks of this host have between them */

/* --- process sets ------------------------------------------------------------------------------------------------ */

/* Horovod's codes: -1 not initialised, -2 dynamic sets disabled, -3 unknown set, -4 caller not in the set,
 * -5 shutting down, -6 the set exists; ours: -7 a rank is out of range or named twice. */
#define RODA_ADD_SET_INVALID (-7)
RODA_API int32_t roda_add_process_set(const int32_t* ranks, int32_t count); /* id >= 1, or a code; collective, blocks */
RODA_API int32_t roda_remove_process_set(int32_t id);
RODA_API int32_t roda_process_set_rank(int32_t id);
RODA_API int32_t roda_process_set_size(int32_t id);
RODA_API int32_t roda_process_set_included(int32_t id);
RODA_API int32_t roda_process_set_count(void);
RODA_API void roda_process_set_ids(int32_t* ids);
RODA_API int32_t roda_process_set_ranks(int32_t id, int32_t* ranks);

/* --- collectives ------------------------------------------------------------------------------------------------- */

/* 0 is no handle. A number is given once in a process, and known from roda_submit to roda_release, also when the engine
 * was shut down and another one runs: what was pending then has ended with an error. */
typedef uint64_t roda_handle;

typedef enum roda_op_flags {
  RODA_OP_WILL_WAIT = 1u << 0, /* the caller waits right after: do not wake the engine's thread for it */
  RODA_OP_IN_TURN = 1u << 1,   /* its name may be in flight: it begins when the operation of that name has ended */
  /* On a GPU: the caller goes on in the order of its streams, and keeps `stream` until roda_wait_on_stream. See below.
   */
  RODA_OP_IN_STREAM_ORDER = 1u << 2,
} roda_op_flags;

/* What one rank wants done with one tensor. Buffers must stay valid and untouched until the handle is done.
 *
 * Tensors on a GPU. `device` is the GPU's number in this process, and input and output lie on it. `stream` is the
 * stream that gives the input its value: the collective waits for what lies on it at the time of roda_submit, on the
 * GPU, and the caller needs no synchronisation, and no context. NULL: the input has its value already. CUDA's default
 * stream, whose handle is NULL, is therefore given as CU_STREAM_LEGACY, which is (void*)1, and the per-thread default
 * stream as CU_STREAM_PER_THREAD, (void*)2; both are those of `device`. A stream that records a graph is an error here
 * and in roda_wait_on_stream, and the graph is as it was.
 *
 * The handle is done when the outputs have their values. With RODA_OP_IN_STREAM_ORDER in all operations that travel
 * together, or HOROVOD_ENABLE_ASYNC_COMPLETION=1, it is done as soon as all work lies on a stream of the engine's; with
 * the flag the collective may also wait for what comes on `stream` after roda_submit, and ENABLE_ASYNC_COMPLETION=0
 * turns the early end off. The outputs have their values, and buffers may be given back or written to,
 * only in the order of a stream that was told to wait by roda_wait_on_stream. What the engine owns goes in the order of
 * the stream that waited last, which lives until then and waits for what others do with it. An error that the GPU meets
 * after that ends the job: the next operation returns it. */
typedef struct roda_op {
  uint32_t struct_size;
  int32_t collective; /* ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER, REDUCE, BARRIER, JOIN */
  const char* name;   /* copied, at most 65,536 bytes; ranks match by it. BARRIER and JOIN: ignored */
  int32_t dtype;
  int32_t ndim;
  const int64_t* shape; /* [ndim], of the input */
  const void* input;
  /* ALLREDUCE: may equal input. BROADCAST: the buffer on every rank (input is ignored unless it differs on the root,
   * whose input is then copied). NULL for ALLGATHER, ALLTOALL and REDUCESCATTER: the engine owns the output, see
   * roda_output. A non-NULL REDUCESCATTER output holds this rank's rows: the input's divided by the ranks, of which the
   * first ones get one more where that leaves a rest. REDUCE: on the root it may equal input, or be NULL: the engine
   * owns it then; elsewhere it is ignored, and there is none. */
  void* output;
  int32_t device; /* -1: host. JOIN: where to supply zeros for tensors on GPUs; -1: on the GPU used last */
  int32_t op;     /* roda_reduce_op */
  int32_t root;   /* world rank; BROADCAST and REDUCE */
  int32_t process_set;
  double prescale;
  double postscale;
  const int32_t* splits; /* ALLTOALL: rows for each rank, NULL for an even split; rows beyond their sum stay */
  int32_t num_splits;
  uint32_t flags; /* roda_op_flags */
  void* stream;   /* of the device, gives the input its value (see above); NULL on the host */
  /* Where the engine would own the output: asked for memory for it, on `device`, as soon as its shape is known. NULL:
   * there is none, and the job ends. Called while the engine is held: it calls nothing of this interface and waits for
   * nobody. roda_output has no owner then. */
  void* (*allocate)(void* context, const int64_t* shape, int32_t ndim, uint64_t bytes);
  void* allocate_context;
  /* roda_wire_format: of the messages between hosts of an ALLREDUCE, REDUCESCATTER or ALLGATHER, the same on all ranks.
   * Passed over where formats don't apply: float32 in host memory has them, sums, averages and what is gathered, an
   * ALLREDUCE of 1024 elements or more. RODA_WIRE_NONE: as the selection table says. */
  int32_t wire_format;
  int32_t reserved;
} roda_op;

/* Submits `count` operations as one group: all or none are queued, and the handle is done when the last one is. Returns
 * at once. Errors seen here are local (bad argument, duplicate name, not initialised); those that the ranks find
 * together come from roda_wait. */
RODA_API int32_t roda_submit(const roda_op* ops, int32_t count, roda_handle* handle, roda_error* error);

/* 1 done, 0 not yet, RODA_ERR_INVALID for an unknown handle. */
RODA_API int32_t roda_poll(roda_handle handle);
/* Blocks until the handle is done (driving the engine on this thread while it is free) and returns its outcome. The
 * handle stays valid until roda_release. Call without the GIL. */
RODA_API int32_t roda_wait(roda_handle handle, roda_error* error);
/* The same for at most so many microseconds. RODA_AGAIN: it is not done yet, and all of it goes on: its buffers stay
 * the engine's. For callers that have something to look after meanwhile, such as signals. */
RODA_API int32_t roda_wait_for(roda_handle handle, int64_t microseconds, roda_error* error);
/* For callers that do not wait, or no longer: `done` is called once when the handle is done, also by an error of the
 * job or its end, and the handle is released when it returns. If it is done already, this thread calls before this
 * returns. Those of all other handles are called one after the other, in the order of their ends, by one thread, which
 * holds nothing of the engine: in `done` operations may be submitted and waited for, but not what another `done` has to
 * do, nor roda_shutdown. An error here, an unknown handle: `done` is not called. Once for a handle. */
typedef void (*roda_done_fn)(void* context, roda_handle handle);
RODA_API int32_t roda_then(roda_handle handle, roda_done_fn done, void* context, roda_error* error);

/* The same, and what the caller puts on `stream` of a GPU from now on waits, on the GPU, for the outputs. The stream is
 * given as in roda_op, never NULL. Outputs in host memory have their values on return. */
RODA_API int32_t roda_wait_on_stream(roda_handle handle, void* stream, roda_error* error);

/* For the flight recorder: the line of the program, "train.py:57", at which a thread waits; "": no longer. It costs a
 * fraction of a microsecond; for waits that take long. */
RODA_API void roda_note_line(const char* line);
/* A garbage collector has held up this process's program for so long: a cause of its lateness. */
RODA_API void roda_note_collection(uint64_t nanoseconds);

/* Output of member `index` of a done handle, where the engine owns it. Memory is reference-counted and outlives
 * shutdown: `owner` holds one reference that roda_output_release drops. */
typedef struct roda_output {
  uint32_t struct_size;
  int32_t ndim;
  int64_t shape[16];
  int32_t dtype;
  int32_t device;
  void* data;
  void* owner;
  int32_t num_received_splits; /* ALLTOALL */
  int32_t value;               /* JOIN: the rank that joined last */
  int32_t received_splits_capacity;
  int32_t reserved;
  int32_t* received_splits; /* caller's array of at least received_splits_capacity, or NULL */
} roda_output;
RODA_API int32_t roda_get_output(roda_handle handle, int32_t index, roda_output* output, roda_error* error);
RODA_API void roda_output_release(void* owner);

/* Forgets the handle. Only after it is done. */
RODA_API void roda_release(roda_handle handle);

/* --- memory that tensors are reduced in --------------------------------------------------------------------------- */

/* Host memory, zero-filled and page-aligned, that the other ranks of the process set reach: an allreduce of one tensor
 * there, in place, copies nothing into buffers. The memory is the caller's until it gives `owner` back, also after
 * shutdown, but not there in forked children. RODA_ERR_UNAVAILABLE: none is to be had, because no transport of the set
 * has such memory, or it is not connected yet: that is after the set's first allreduce of some size;
 * RODA_ERR_NO_MEMORY: not so much. Any rank may ask for itself: what peers reach, and what they don't, gives the same
 * results. */
RODA_API int32_t roda_lend_memory(int32_t process_set, uint64_t bytes, void** data, void** owner, roda_error* error);
RODA_API void roda_give_memory_back(void* owner);

/* --- introspection: texts that the caller frees with roda_free_text ----------------------------------------------- */

RODA_API char* roda_describe_plugins(int32_t as_json); /* every plugin considered: usable, or the reason why not */
RODA_API char* roda_describe_knobs(int32_t as_json);   /* every setting: type, default, unit, value in force, help */
/* Of this process before init, of the job after it. Before init the GPUs' driver is asked too, which can take a second.
 */
RODA_API char* roda_describe_topology(int32_t as_json);
/* Of a topology file (docs/topology.md). NULL and `error` when it is malformed. */
RODA_API char* roda_describe_topology_file(const char* path, int32_t as_json, roda_error* error);
/* What would run for `bytes` of `collective` on `size` ranks of one host (0: the job's), the candidates that lost, why.
 * `as_json` 1: JSON, with what roda-info predicts their times from; 2: of what runs alone. */
RODA_API char* roda_explain(int32_t collective, uint64_t bytes, int32_t size, int32_t as_json, roda_error* error);
/* The same on the hosts of a topology file, laid out for `size` ranks (0: as many as it has, or one host takes). */
RODA_API char* roda_explain_on(const char* topology_file, int32_t collective, uint64_t bytes, int32_t size,
                               int32_t as_json, roda_error* error);
/* The same for tensors in one kind of memory: "host" or "cuda". NULL: "cuda" where the hosts of the file have GPUs and
 * a usable transport works on their memory, else "host". `topology_file` NULL: as roda_explain. */
RODA_API char* roda_explain_memory(const char* memory, const char* topology_file, int32_t collective, uint64_t bytes,
                                   int32_t size, int32_t as_json, roda_error* error);
/* JSON: the latest rank that came last in most steps, as one of those that wait for it has found: {"number": 1 (of
 * those so far), "rank", "host", "steps", "of_steps", "share" (of the time in which the others wait for it), "seconds"
 * (in the median of those steps), "before_first" (by how many it is late with a step's first tensor, or null),
 * "cause" (in words)}; {} where there was none. */
RODA_API char* roda_describe_straggler(void);
RODA_API void roda_free_text(char* text);

/* 1 when a transport of that name is loaded and usable on this machine. Callable before init. */
RODA_API int32_t roda_transport_usable(const char* name);

/* 1 when tensors in memory of that roda_memory_kind can be submitted on this machine. Callable before init. */
RODA_API int32_t roda_device_usable(int32_t memory_kind);

/* What this rank's messages in wire formats have lost so far is forgotten, instead of added to what is sent next. */
RODA_API int32_t roda_reset_wire_residuals(void); /* 1, -1 not initialised */

/* --- timeline (Chrome trace) -------------------------------------------------------------------------------------- */

RODA_API int32_t roda_start_timeline(const char* path, int32_t mark_cycles); /* 1, -1 not initialised, -2 not armed */
RODA_API int32_t roda_stop_timeline(void);                                   /* the same */

/* --- rendezvous server: what a launcher runs ---------------------------------------------------------------------- */

typedef struct roda_rendezvous roda_rendezvous;
/* Listens on `address` (text, "" for loopback) and `port` (0: any free). `secret` is the job's, at least 16 bytes. */
RODA_API int32_t roda_rendezvous_start(const char* address, int32_t port, const void* secret, size_t secret_bytes,
                                       roda_rendezvous** server, int32_t* bound_port, roda_error* error);
/* Ends a generation (roda_init_options): its ranks that are not together yet, or still come, get `reason` as the error.
 */
RODA_API void roda_rendezvous_retire(roda_rendezvous* server, uint64_t generation, const char* reason);
RODA_API void roda_rendezvous_stop(roda_rendezvous* server);

/* --- what connections have carried so far, to compare with what was foreseen. Any thread -------------------------- */

typedef struct roda_traffic {
  uint32_t struct_size;
  uint32_t connections;
  uint64_t sent, received; /* messages */
  uint64_t bytes;          /* of both */
  uint64_t values;         /* of a rendezvous: that ranks put there */
} roda_traffic;
/* Of this rank's control plane with those of other hosts: 0; -1 not initialised. Zeros where it leads no host. */
RODA_API int32_t roda_control_traffic(roda_traffic* traffic);
/* Of a rendezvous with the ranks that proved the secret: requests received and answers sent. */
RODA_API void roda_rendezvous_traffic(const roda_rendezvous* server, roda_traffic* traffic);

#ifdef __cplusplus
}
#endif
