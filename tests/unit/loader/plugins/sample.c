/* A transport that does nothing, and, by the macros of meson.build, the ways in which a plugin can be broken. */
#define _GNU_SOURCE
#include <roda/abi/bootstrap.h>
#include <roda/abi/opening.h>
#include <roda/abi/settings.h>
#include <roda/abi/transport.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef NAME
#define NAME "sample"
#endif
#ifndef FILE_ABI
#define FILE_ABI RODA_ABI_VERSION
#endif
#ifndef TABLE_ABI
#define TABLE_ABI RODA_ABI_VERSION
#endif
#ifndef MAGIC
#define MAGIC RODA_PLUGIN_MAGIC
#endif
#ifndef KIND
#define KIND "transport"
#endif
#ifndef TABLE_NAME
#define TABLE_NAME NAME
#endif
#ifndef CAPABILITIES
#define CAPABILITIES (RODA_CAP_P2P | RODA_CAP_FAULT_TOLERANT)
#endif
#ifndef SIZE
#define SIZE sizeof(roda_transport)
#endif

#ifndef NO_INFO
__attribute__((visibility("default"))) const roda_plugin_info_t roda_plugin_info = {MAGIC, FILE_ABI, KIND, NAME};
#endif

#ifdef SETTING
__attribute__((visibility("default"))) const roda_setting* roda_settings_v1(uint32_t index) {
  static const roda_setting setting = {sizeof setting, 0, SETTING, "", "", 0, 0, "of the test"};
  return index == 0 ? &setting : NULL;
}
#endif

#ifdef ONLY_BY_NAME
__attribute__((visibility("default"))) const char roda_only_by_name = 1;
#endif

/* A refused plugin must not have run: the constructor leaves a trace. It also takes a signal, as some libraries do. */
static void take(int signal) { (void)signal; }
__attribute__((constructor)) static void trace(void) {
  setenv("RODA_TEST_RAN_" NAME, "1", 1);
  signal(SIGHUP, take);
}

static int32_t probe(const roda_host* host, roda_error* error) {
#ifdef FAILING_PROBE
  (void)host;
  snprintf(error->message, sizeof error->message, "no wire is plugged in");
  error->code = RODA_ERR_UNAVAILABLE;
  return RODA_ERR_UNAVAILABLE;
#else
  (void)error;
  return host->knob(host->self, "RODA_TEST_KNOB") != NULL ? RODA_OK : RODA_ERR_UNAVAILABLE;
#endif
}
static int32_t context_create(const roda_host* host, roda_context** context, roda_error* error) {
  (void)host, (void)context, (void)error;
  return RODA_ERR_UNSUPPORTED;
}
static void context_destroy(roda_context* context) { (void)context; }
static uint64_t context_capabilities(roda_context* context) { return (void)context, 0; }
static int32_t nothing(roda_context* context) { return (void)context, 0; }
static int32_t group_create(roda_context* context, const roda_group_desc* desc, roda_group** group, roda_error* error) {
  (void)context, (void)desc, (void)group, (void)error;
  return RODA_ERR_UNSUPPORTED;
}
static int32_t group_test(roda_group* group, roda_error* error) { return (void)group, (void)error, RODA_OK; }
static void group_abort(roda_group* group, const roda_error* cause) { (void)group, (void)cause; }
static void group_destroy(roda_group* group) { (void)group; }
static int32_t send_nothing(roda_group* group, int32_t peer, uint64_t tag, const void* data, size_t bytes,
                            const roda_memory* memory, roda_request** request, roda_error* error) {
  (void)group, (void)peer, (void)tag, (void)data, (void)bytes, (void)memory, (void)request, (void)error;
  return RODA_OK;
}
static int32_t recv_nothing(roda_group* group, int32_t peer, uint64_t tag, void* data, size_t bytes,
                            const roda_memory* memory, roda_request** request, roda_error* error) {
  (void)group, (void)peer, (void)tag, (void)data, (void)bytes, (void)memory, (void)request, (void)error;
  return RODA_OK;
}
static int32_t request_test(roda_group* group, roda_request* request, roda_error* error) {
  return (void)group, (void)request, (void)error, RODA_OK;
}
static int32_t quiesced(roda_group* group, const void* base, size_t bytes) {
  return (void)group, (void)base, (void)bytes, 1;
}

#ifdef NO_ENTRY
#define roda_transport_v2 roda_transport_under_another_name
#endif
__attribute__((visibility("default"))) const roda_transport* roda_transport_v2(void);
const roda_transport* roda_transport_v2(void) {
  static const roda_transport table = {
      .struct_size = SIZE,
      .abi_version = TABLE_ABI,
      .name = TABLE_NAME,
      .description = "does nothing",
      .progress_mode = RODA_PROGRESS_THREAD,
      .capabilities = CAPABILITIES,
      .probe = probe,
      .context_create = context_create,
      .context_destroy = context_destroy,
      .context_capabilities = context_capabilities,
      .progress = nothing,
      .event_fd = nothing,
      .arm = nothing,
      .group_create = group_create,
      .group_test = group_test,
#ifndef NO_ABORT
      .group_abort = group_abort,
#endif
      .group_destroy = group_destroy,
      .send = send_nothing,
      .recv = recv_nothing,
      .request_test = request_test,
      .quiesced = quiesced,
  };
#ifdef NO_ABORT
  (void)group_abort;
#endif
  return &table;
}

#ifdef BOOTSTRAP_NAME
static int32_t launched_here(const roda_host* host) { return (void)host, 1; }
static int32_t start(const roda_host* host, const roda_job_options* options, roda_job** job, roda_error* error) {
  return (void)host, (void)options, (void)job, (void)error, RODA_OK;
}
static int32_t zero(roda_job* job) { return (void)job, 0; }
static int32_t broadcast(roda_job* job, void* data, size_t bytes, int32_t root, roda_error* error) {
  return (void)job, (void)data, (void)bytes, (void)root, (void)error, RODA_OK;
}
static int32_t agree(roda_job* job, int32_t mine, int32_t* all, roda_error* error) {
  return (void)job, (void)error, *all = mine, RODA_OK;
}
static void peer_lost(const roda_host* host, int32_t rank) { (void)host, (void)rank; }
#ifndef BOOTSTRAP_BYTES
#define BOOTSTRAP_BYTES sizeof(roda_bootstrap)
#endif
#ifndef FINISH
static void finish(roda_job* job) { (void)job; }
#define FINISH finish
#endif

__attribute__((visibility("default"))) const roda_bootstrap* roda_bootstrap_v2(void);
const roda_bootstrap* roda_bootstrap_v2(void) {
  static const roda_bootstrap table = {BOOTSTRAP_BYTES, TABLE_ABI, BOOTSTRAP_NAME, launched_here, start, zero, zero,
                                       broadcast,       agree,     FINISH,         peer_lost};
  return &table;
}
#endif

#ifdef UNRESOLVED
extern int roda_test_symbol_that_nobody_defines(void);
__attribute__((visibility("default"))) int unresolved(void) { return roda_test_symbol_that_nobody_defines(); }
#endif
