/* The transport contract, version 2.
 *
 * A transport is a shared object that exports
 *     const roda_transport* roda_transport_v2(void);
 * and a data symbol `roda_plugin_info` that is read from the file before any of its code runs.
 *
 * Vocabulary: a *context* is one use of the transport by one process; a *group* is an ordered set of ranks that can
 * talk over it; a *request* is one pending operation; a *window* is local memory that the peers of a group may read or
 * write.
 *
 * Threads: unless an entry says otherwise it is called by one thread at a time (the holder of the engine's baton), not
 * always the same one. No entry blocks: whatever can wait is a start / test pair. Entries marked OPTIONAL may be NULL;
 * the capability bits say so too. A plugin built against an older, shorter struct leaves newer entries out of
 * struct_size and is treated as not offering them.
 */
#pragma once

#include <roda/abi/host.h>
#include <roda/abi/types.h>

#define RODA_TRANSPORT_SYMBOL "roda_transport_v2"
#define RODA_PLUGIN_INFO_SYMBOL "roda_plugin_info"
#define RODA_PLUGIN_MAGIC 0x61646f72u /* "roda" */

/* Read from the ELF file before it is opened: a wrong version is refused without running its constructors. */
typedef struct roda_plugin_info_t {
  uint32_t magic;
  uint32_t abi_version;
  char kind[16]; /* "transport" or "device" (device.h) */
  char name[32]; /* what HOROVOD_CPU_OPERATIONS and friends select it by, lower case */
} roda_plugin_info_t;

typedef struct roda_context roda_context;
typedef struct roda_group roda_group;
typedef struct roda_request roda_request;

typedef enum roda_progress_mode {
  RODA_PROGRESS_FD = 0,     /* progress(), then arm() and sleep on event_fd() */
  RODA_PROGRESS_THREAD = 1, /* the plugin's own threads work; event_fd() becomes readable when a test may succeed */
  RODA_PROGRESS_POLL = 2,   /* no descriptor: polled, with back-off, while operations are in flight */
} roda_progress_mode;

typedef enum roda_capability {
  RODA_CAP_P2P = 1u << 0,             /* send, recv */
  RODA_CAP_SIGNAL = 1u << 1,          /* signal, signal_value */
  RODA_CAP_GET = 1u << 2,             /* windows, get */
  RODA_CAP_PUT = 1u << 3,             /* windows, put */
  RODA_CAP_MAP = 1u << 4,             /* windows over memory it handed out can be mapped: window_map */
  RODA_CAP_ALLOCATE = 1u << 5,        /* memory_alloc */
  RODA_CAP_REGISTER = 1u << 6,        /* memory_register */
  RODA_CAP_NATIVE = 1u << 7,          /* collective_* */
  RODA_CAP_SAME_HOST = 1u << 8,       /* reaches only ranks of one host */
  RODA_CAP_IN_PROCESS = 1u << 9,      /* reaches only ranks that are threads of one process */
  RODA_CAP_FAULT_TOLERANT = 1u << 11, /* abort bounds every pending operation and quiesced() can be trusted */
  RODA_CAP_WINDOW_ANY = 1u << 12,     /* windows may be opened over memory it did not hand out */
  RODA_CAP_ACTIVE_WINDOWS = 1u << 13, /* gets and puts may need the owner of the window to call progress() */
  RODA_CAP_MEMORY_STAYS = 1u << 14,   /* what memory_alloc gave and was not freed stays mapped when the group goes; then
                                         munmap() gives it back */
} roda_capability;

/* How a group is formed. Pointers are valid until the group is destroyed. */
typedef struct roda_group_desc {
  uint32_t struct_size;
  int32_t rank; /* of this process in the group */
  int32_t size;
  int32_t reserved;
  const int32_t* world_ranks; /* [size], group rank -> world rank, for messages */
  const char* name;           /* equal on all members, unique per group and generation */
  uint64_t generation;        /* of the job's membership */
  uint64_t timeout_ns;        /* for forming the group, and for each operation without progress; 0 = none */
  roda_exchange exchange;
  int32_t has_device; /* 0: the plugin chooses, where it needs one */
  int32_t device;     /* the GPU that this member's memory lies on, by its number in this process */
  /* Where other hosts reach this one, "10.0.0.2": for a group of several, where the plugin's own settings name no
   * interface. NULL: not known. */
  const char* address;
} roda_group_desc;

/* One native collective. Counts are elements of `dtype`, not bytes. */
typedef struct roda_collective_args {
  uint32_t struct_size;
  int32_t collective; /* roda_collective */
  int32_t dtype;
  int32_t op;
  int32_t root; /* group rank, of broadcast and reduce */
  int32_t memory_kind;
  const void* input; /* may equal output where the collective is done in place: allreduce, broadcast,
                      * reduce */
  void* output;      /* reduce: of the root; NULL elsewhere */
  /* allreduce, broadcast, reduce: elements of input and output. allgather: unused. reduce-scatter: elements of input.
   * alltoall: elements from each rank to each, where that is the same for all; else, or where it isn't known, 0. */
  size_t count;
  const size_t* send_counts; /* [size] alltoall: elements to each rank, back to back in input */
  const size_t* recv_counts; /* [size] allgather, alltoall: elements from each rank, back to back in output;
                                reduce-scatter: elements that each rank keeps */
  uint64_t tag;              /* equal on all members, unique among operations in flight on the group */
  void* stream;              /* device stream to run on, NULL for host memory */
} roda_collective_args;

typedef struct roda_transport {
  uint32_t struct_size;
  uint32_t abi_version;
  const char* name;
  const char* description; /* one line: library and version it is built with */
  uint32_t progress_mode;  /* roda_progress_mode */
  uint32_t reserved;
  uint64_t capabilities; /* roda_capability bits, as far as known without a context */

  /* Usable here? RODA_OK, or RODA_ERR_UNAVAILABLE with the reason in words. Cheap; leaves nothing behind. */
  int32_t (*probe)(const roda_host* host, roda_error* error);

  int32_t (*context_create)(const roda_host* host, roda_context** context, roda_error* error);
  /* Every group is gone by now. Joins the plugin's threads. */
  void (*context_destroy)(roda_context* context);
  /* Capability bits as found on this machine; a subset of, or equal to, `capabilities`. */
  uint64_t (*context_capabilities)(roda_context* context);

  /* Moves pending operations on. Returns how many events were handled, 0 when there was nothing to do. */
  int32_t (*progress)(roda_context* context);
  /* Readable when progress() or a test may succeed. -1 in poll mode. The same for the context's whole life. */
  int32_t (*event_fd)(roda_context* context);
  /* Before sleeping on event_fd(). RODA_OK: the caller may sleep (after re-testing its requests and signals once
   * more). RODA_AGAIN: events are pending, call progress() first. Clears the descriptor's readable state. */
  int32_t (*arm)(roda_context* context);
  /* OPTIONAL (fd mode). The caller is awake again: peers need not ring until the next arm(). */
  void (*disarm)(roda_context* context);

  /* Forming a group: start, then test until it is not RODA_IN_PROGRESS. On failure the group must still be destroyed.
   * group_test drives the exchange; it is called often and must be cheap. Once it was RODA_OK it goes on to tell
   * whether the group still works: operations that only watch signals learn from it of an abort or of a lost peer. */
  int32_t (*group_create)(roda_context* context, const roda_group_desc* desc, roda_group** group, roda_error* error);
  int32_t (*group_test)(roda_group* group, roda_error* error);
  /* Every pending and later operation on the group ends with `cause` in bounded time. Any thread. Idempotent: the first
   * cause stays. */
  void (*group_abort)(roda_group* group, const roda_error* cause);
  /* No request may be pending unless the group was aborted. Does not wait for peers. */
  void (*group_destroy)(roda_group* group);

  /* Point-to-point (RODA_CAP_P2P). Messages match by (peer, tag), in order among equal tags; both sides give the same
   * length, a difference is an error on the receiver. A receive may be posted after its message came. `memory` is the
   * object that the range lies in, NULL for plain host memory. *request is NULL when the operation is already done.
   * RODA_AGAIN: nothing was started. */
  int32_t (*send)(roda_group* group, int32_t peer, uint64_t tag, const void* data, size_t bytes,
                  const roda_memory* memory, roda_request** request, roda_error* error);
  int32_t (*recv)(roda_group* group, int32_t peer, uint64_t tag, void* data, size_t bytes, const roda_memory* memory,
                  roda_request** request, roda_error* error);
  /* RODA_IN_PROGRESS, or the end of the request: RODA_OK or an error; either end releases it. */
  int32_t (*request_test)(roda_group* group, roda_request* request, roda_error* error);

  /* Signals (RODA_CAP_SIGNAL): a 64-bit value per (sender, receiver, index), index < signal_count(). Setting one makes
   * all that the sender wrote before (windows included) visible to a receiver that reads the value. Values of one index
   * only grow. RODA_AGAIN: to be called again with the same value, with progress in between. */
  uint32_t (*signal_count)(roda_group* group);
  int32_t (*signal)(roda_group* group, int32_t peer, uint32_t index, uint64_t value, roda_error* error);
  uint64_t (*signal_value)(roda_group* group, int32_t peer, uint32_t index);

  /* Windows (RODA_CAP_GET, RODA_CAP_PUT): slot < window_count(). Peers may use a window after a signal that was sent
   * after window_open, and until the owner closes or reopens the slot. */
  uint32_t (*window_count)(roda_group* group);
  int32_t (*window_open)(roda_group* group, uint32_t slot, void* base, size_t bytes, const roda_memory* memory,
                         roda_error* error);
  void (*window_close)(roda_group* group, uint32_t slot);
  /* Address of the peer's window in this process, NULL when it can't be mapped and get/put must be used. */
  void* (*window_map)(roda_group* group, int32_t peer, uint32_t slot);
  int32_t (*get)(roda_group* group, int32_t peer, uint32_t slot, size_t offset, void* destination, size_t bytes,
                 roda_request** request, roda_error* error);
  int32_t (*put)(roda_group* group, int32_t peer, uint32_t slot, size_t offset, const void* source, size_t bytes,
                 roda_request** request, roda_error* error);

  /* Memory. alloc: handed out by the transport, local, reachable by the group's peers through windows without a copy.
   * register: prepares foreign memory (pins, registers). Both fill *memory; free/deregister take it back. A group of
   * native collectives alone hands out its device's memory, for these: all ranks ask for the same collectives, for the
   * same bytes, and give nothing back before their last one. RODA_ERR_UNSUPPORTED, on all ranks: it has none. */
  int32_t (*memory_alloc)(roda_group* group, size_t bytes, roda_memory* memory, roda_error* error);
  void (*memory_free)(roda_group* group, roda_memory* memory);
  int32_t (*memory_register)(roda_group* group, roda_memory* memory, roda_error* error);
  void (*memory_deregister)(roda_group* group, roda_memory* memory);

  /* Native collectives (RODA_CAP_NATIVE). supported: 1 or 0; pure, any thread, same answer on every rank. The context
   * may be NULL: plans are made before one exists. */
  int32_t (*collective_supported)(roda_context* context, int32_t collective, int32_t dtype, int32_t op,
                                  int32_t memory_kind);
  int32_t (*collective_start)(roda_group* group, const roda_collective_args* args, roda_request** request,
                              roda_error* error);

  /* 1 when no local or remote access to the range can follow any more, 0 while one may. After group_abort this must
   * become 1 in bounded time if RODA_CAP_FAULT_TOLERANT is set. Of a registered range: 0 also while memory_deregister
   * would have to wait. */
  int32_t (*quiesced)(roda_group* group, const void* base, size_t bytes);

  /* OPTIONAL. Whether all that ended so far goes on without this process: RODA_OK, or RODA_AGAIN while ended requests
   * and signals have left something here that needs progress(). A caller with nothing in flight goes on making progress
   * and asking until it hears RODA_OK, before it stops making progress and before it destroys a group; it may arm and
   * sleep in between. What belongs to aborted groups and lost peers doesn't count. A transport without the entry
   * promises that what has ended needs no progress any more. */
  int32_t (*settle)(roda_context* context);

  /* OPTIONAL (RODA_CAP_NATIVE on memory of a device). Whether all work of a collective that was started with a stream
   * lies on that stream, so that what the caller puts there next comes after it: RODA_OK, or RODA_IN_PROGRESS, or the
   * error that the request is going to end with. Releases nothing; not asked after the request's end. */
  int32_t (*request_on_stream)(roda_group* group, roda_request* request, roda_error* error);

  /* OPTIONAL, and younger than the entries above. The kinds of memory that send, recv and memory_register take here,
   * one bit each: 1u << roda_memory_kind; `device` is the one in question, by its number in this process. As found on
   * this machine, so it may differ between ranks: whether the memory of one end of a message is a device's is no
   * concern of the other end. Asked when a group of the context has formed and there are data on the device. A
   * transport without the entry takes host memory. What native collectives take is said by collective_supported alone;
   * windows are opened over host memory. */
  uint32_t (*memory_kinds)(roda_context* context, int32_t device);

  /* OPTIONAL, and younger still (RODA_CAP_MAP). What a plain copy to memory that the peer has read costs this rank, in
   * percent of storing it past the cache; 0 while that is not known. It follows ranks that are moved to other cores as
   * long as both ask again and again. Cheap enough for every block of a large tensor; ranks may hear different figures.
   */
  uint32_t (*store_cost)(roda_group* group, int32_t peer);

  /* OPTIONAL, and the youngest. Whether groups of a job can form here that has `ranks` ranks on this host, this one
   * among them: RODA_OK, or the reason in words with RODA_ERR_UNAVAILABLE (a limit of this process, mostly: the user is
   * warned) or RODA_ERR_PRECONDITION (such a job is none of the transport's: the user hears of it who named the
   * transport). Where one rank's answer is no, no rank of the job uses the transport. Cheap; asked before any context
   * is made. */
  int32_t (*suits)(const roda_host* host, int32_t ranks, roda_error* error);
} roda_transport;

typedef const roda_transport* (*roda_transport_entry)(void);
