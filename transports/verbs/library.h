// libibverbs, opened at run time behind a table of the functions that it exports, so that one binary serves machines
// with and without it. What its headers define inline (posting, polling) goes through the opened device itself.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>

namespace roda::verbs {

// clang-format off
#define RODA_VERBS_FUNCTIONS(X)                                                                              \
  X(get_device_list) X(free_device_list) X(get_device_name) X(open_device) X(close_device) X(query_device)   \
  X(query_port) X(get_async_event) X(ack_async_event) X(event_type_str) X(wc_status_str) X(fork_init)        \
  X(alloc_pd) X(dealloc_pd) X(reg_mr) X(dereg_mr) X(create_comp_channel) X(destroy_comp_channel)             \
  X(create_cq) X(destroy_cq) X(get_cq_event) X(ack_cq_events) X(create_qp) X(modify_qp) X(destroy_qp)
// clang-format on

// Immutable once opened; any thread. Never closed: its providers register handlers that outlive a closing.
struct Library {
#define RODA_VERBS_MEMBER(name) decltype(&::ibv_##name) name = nullptr;
  RODA_VERBS_FUNCTIONS(RODA_VERBS_MEMBER)
#undef RODA_VERBS_MEMBER
  decltype(&::_ibv_query_gid_ex) query_gid_ex = nullptr;
  decltype(&::ibv_reg_dmabuf_mr) reg_dmabuf_mr = nullptr;  // null before rdma-core 34

  // `file` is a name for the dynamic linker. Throws sdk::Failure (RODA_ERR_UNAVAILABLE) with the reason.
  static std::shared_ptr<const Library> open(const std::string& file);
};

}  // namespace roda::verbs
