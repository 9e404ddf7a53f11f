// The C table of a transport made from two C++ classes, every entry behind an exception barrier.
//
//   class Context {                                       class Group {
//     explicit Context(const roda_host* host);              Group(Context& context, const roda_group_desc& desc);
//     static void probe(const roda_host* host);     // o    bool test();               // true: formed
//     static void suits(const roda_host*, int);     // o
//     std::uint64_t capabilities();                 // o    void abort(const Failure& cause);
//     int progress();                                       bool is_quiet(const void* base, std::size_t bytes);
//     int event_fd();                                       using Request = ...;  struct of a pending operation
//     bool arm();       // true: may sleep                  ...
//     void disarm();                                // o  };
//     bool settle();    // true: settled            // o
//     std::uint32_t memory_kinds(int device);       // o
//   };
//   constexpr roda_transport kTable = roda::sdk::transport<Context, Group, bits>("name", "library 1.2",
//   RODA_PROGRESS_FD); RODA_TRANSPORT_PLUGIN("name", &kTable);
//
// Functions report errors by throwing (Failure, or anything). What starts an operation returns RODA_OK or RODA_AGAIN
// and sets *request, null when it is done already:
//   int32_t send(int peer, uint64_t tag, const void* data, size_t bytes, const roda_memory* memory, Request** request);
//   int32_t receive(int peer, uint64_t tag, void* data, size_t bytes, const roda_memory* memory, Request** request);
//   int32_t get / put(int peer, uint32_t slot, size_t offset, void* / const void* data, size_t bytes, Request**
//   request); int32_t start(const roda_collective_args& args, Request** request); int32_t test(Request* request);   //
//   RODA_IN_PROGRESS or RODA_OK, or throws; either end releases it
//   bool is_on_stream(Request* request);                                                                        // o
// The remaining entries take the names of the ABI (signal, which may return void or a code, signal_value, signal_count,
// window_*, store_cost, memory_*, collective_supported as a static member of Context). The capability bits say which
// entries are in the table; what is marked "o" may be left out.
#pragma once

#include <roda/abi/transport.h>
#include <roda/sdk/error.hpp>

#include <type_traits>

namespace roda::sdk {
namespace detail {

template <typename Context>
Context& context_of(roda_context* handle) {
  return *reinterpret_cast<Context*>(handle);
}
template <typename Group>
Group& group_of(roda_group* handle) {
  return *reinterpret_cast<Group*>(handle);
}

// Runs what starts an operation: `begin` gets where to put the request.
template <typename Request, typename Begin>
int32_t start(roda_request** handle, roda_error* error, Begin&& begin) noexcept {
  Request* request = nullptr;
  const int32_t code = guarded(error, [&]() -> int32_t { return begin(&request); });
  *handle = code == RODA_OK ? reinterpret_cast<roda_request*>(request) : nullptr;
  return code;
}

template <typename Context>
constexpr void fill_context(roda_transport* table) {
  table->probe = [](const roda_host* host, roda_error* error) -> int32_t {
    if constexpr (requires { Context::probe(host); }) return done(error, [&] { Context::probe(host); });
    return RODA_OK;
  };
  if constexpr (requires(const roda_host* host) { Context::suits(host, 0); }) {
    table->suits = [](const roda_host* host, int32_t ranks, roda_error* error) -> int32_t {
      return done(error, [&] { Context::suits(host, ranks); });
    };
  }
  table->context_create = [](const roda_host* host, roda_context** context, roda_error* error) {
    return done(error, [&] { *context = reinterpret_cast<roda_context*>(new Context(host)); });
  };
  table->context_destroy = [](roda_context* context) { delete &context_of<Context>(context); };
  table->progress = [](roda_context* context) -> int32_t { return context_of<Context>(context).progress(); };
  table->event_fd = [](roda_context* context) -> int32_t { return context_of<Context>(context).event_fd(); };
  table->arm = [](roda_context* context) -> int32_t {
    return context_of<Context>(context).arm() ? RODA_OK : RODA_AGAIN;
  };
  if constexpr (requires(Context& context) { context.disarm(); }) {
    table->disarm = [](roda_context* context) { context_of<Context>(context).disarm(); };
  }
  if constexpr (requires(Context& context) { context.settle(); }) {
    table->settle = [](roda_context* context) -> int32_t {
      return context_of<Context>(context).settle() ? RODA_OK : RODA_AGAIN;
    };
  }
  if constexpr (requires(Context& context) { context.memory_kinds(0); }) {
    table->memory_kinds = [](roda_context* context, int32_t device) -> uint32_t {
      return context_of<Context>(context).memory_kinds(device);
    };
  }
  if constexpr (requires { Context::collective_supported(0, 0, 0, 0); }) {
    table->collective_supported = [](roda_context*, int32_t collective, int32_t dtype, int32_t op,
                                     int32_t kind) -> int32_t {
      return Context::collective_supported(collective, dtype, op, kind) ? 1 : 0;
    };
  }
}

template <typename Context, typename Group>
constexpr void fill_group(roda_transport* table) {
  table->group_create = [](roda_context* context, const roda_group_desc* desc, roda_group** group, roda_error* error) {
    return done(error, [&] { *group = reinterpret_cast<roda_group*>(new Group(context_of<Context>(context), *desc)); });
  };
  table->group_test = [](roda_group* group, roda_error* error) {
    return guarded(error, [&]() -> int32_t { return group_of<Group>(group).test() ? RODA_OK : RODA_IN_PROGRESS; });
  };
  table->group_abort = [](roda_group* group, const roda_error* cause) {
    done(nullptr, [&] { group_of<Group>(group).abort(Failure(*cause)); });
  };
  table->group_destroy = [](roda_group* group) { delete &group_of<Group>(group); };
  table->quiesced = [](roda_group* group, const void* base, size_t bytes) -> int32_t {
    return group_of<Group>(group).is_quiet(base, bytes) ? 1 : 0;
  };
  table->request_test = [](roda_group* group, roda_request* request, roda_error* error) {
    using Request = typename Group::Request;
    return guarded(error,
                   [&]() -> int32_t { return group_of<Group>(group).test(reinterpret_cast<Request*>(request)); });
  };
}

template <typename Group>
constexpr void fill_messages(roda_transport* table) {
  using Request = typename Group::Request;
  table->send = [](roda_group* group, int32_t peer, uint64_t tag, const void* data, size_t bytes,
                   const roda_memory* memory, roda_request** request, roda_error* error) {
    return start<Request>(request, error, [&](Request** out) {
      return group_of<Group>(group).send(peer, tag, data, bytes, memory, out);
    });
  };
  table->recv = [](roda_group* group, int32_t peer, uint64_t tag, void* data, size_t bytes, const roda_memory* memory,
                   roda_request** request, roda_error* error) {
    return start<Request>(request, error, [&](Request** out) {
      return group_of<Group>(group).receive(peer, tag, data, bytes, memory, out);
    });
  };
}

template <typename Group>
constexpr void fill_signals(roda_transport* table) {
  table->signal_count = [](roda_group* group) -> uint32_t { return group_of<Group>(group).signal_count(); };
  table->signal = [](roda_group* group, int32_t peer, uint32_t index, uint64_t value, roda_error* error) {
    return guarded(error, [&]() -> int32_t {
      if constexpr (std::is_void_v<decltype(group_of<Group>(group).signal(peer, index, value))>) {
        group_of<Group>(group).signal(peer, index, value);
        return RODA_OK;
      } else {
        return group_of<Group>(group).signal(peer, index, value);
      }
    });
  };
  table->signal_value = [](roda_group* group, int32_t peer, uint32_t index) -> uint64_t {
    return group_of<Group>(group).signal_value(peer, index);
  };
}

template <typename Group>
constexpr void fill_windows(roda_transport* table) {
  using Request = typename Group::Request;
  table->window_count = [](roda_group* group) -> uint32_t { return group_of<Group>(group).window_count(); };
  table->window_open = [](roda_group* group, uint32_t slot, void* base, size_t bytes, const roda_memory* memory,
                          roda_error* error) {
    return done(error, [&] { group_of<Group>(group).window_open(slot, base, bytes, memory); });
  };
  table->window_close = [](roda_group* group, uint32_t slot) { group_of<Group>(group).window_close(slot); };
  if constexpr (requires(Group& group) { group.window_map(0, 0u); }) {
    table->window_map = [](roda_group* group, int32_t peer, uint32_t slot) -> void* {
      return group_of<Group>(group).window_map(peer, slot);
    };
  }
  if constexpr (requires(Group& group) { group.store_cost(0); }) {
    table->store_cost = [](roda_group* group, int32_t peer) -> uint32_t {
      return group_of<Group>(group).store_cost(peer);
    };
  }
  if constexpr (requires(Group& group, Request** r) { group.get(0, 0u, 0ul, static_cast<void*>(nullptr), 0ul, r); }) {
    table->get = [](roda_group* group, int32_t peer, uint32_t slot, size_t offset, void* destination, size_t bytes,
                    roda_request** request, roda_error* error) {
      return start<Request>(request, error, [&](Request** out) {
        return group_of<Group>(group).get(peer, slot, offset, destination, bytes, out);
      });
    };
  }
  if constexpr (requires(Group& group, Request** r) {
                  group.put(0, 0u, 0ul, static_cast<const void*>(nullptr), 0ul, r);
                }) {
    table->put = [](roda_group* group, int32_t peer, uint32_t slot, size_t offset, const void* source, size_t bytes,
                    roda_request** request, roda_error* error) {
      return start<Request>(request, error, [&](Request** out) {
        return group_of<Group>(group).put(peer, slot, offset, source, bytes, out);
      });
    };
  }
}

template <typename Group>
constexpr void fill_memory(roda_transport* table) {
  if constexpr (requires(Group& group, roda_memory* memory) { group.memory_alloc(0ul, memory); }) {
    table->memory_alloc = [](roda_group* group, size_t bytes, roda_memory* memory, roda_error* error) {
      return done(error, [&] { group_of<Group>(group).memory_alloc(bytes, memory); });
    };
    table->memory_free = [](roda_group* group, roda_memory* memory) { group_of<Group>(group).memory_free(memory); };
  }
  if constexpr (requires(Group& group, roda_memory* memory) { group.memory_register(memory); }) {
    table->memory_register = [](roda_group* group, roda_memory* memory, roda_error* error) {
      return done(error, [&] { group_of<Group>(group).memory_register(memory); });
    };
    table->memory_deregister = [](roda_group* group, roda_memory* memory) {
      group_of<Group>(group).memory_deregister(memory);
    };
  }
}

template <typename Group>
constexpr void fill_collectives(roda_transport* table) {
  using Request = typename Group::Request;
  table->collective_start = [](roda_group* group, const roda_collective_args* args, roda_request** request,
                               roda_error* error) {
    return start<Request>(request, error, [&](Request** out) { return group_of<Group>(group).start(*args, out); });
  };
  if constexpr (requires(Group& group, Request* request) { group.is_on_stream(request); }) {
    table->request_on_stream = [](roda_group* group, roda_request* request, roda_error* error) {
      return guarded(error, [&]() -> int32_t {
        const bool is = group_of<Group>(group).is_on_stream(reinterpret_cast<Request*>(request));
        return is ? RODA_OK : RODA_IN_PROGRESS;
      });
    };
  }
}

// What context_capabilities answers when Context does not say.
template <typename Context, std::uint64_t kCapabilities>
uint64_t capabilities(roda_context* context) {
  if constexpr (requires(Context& c) { c.capabilities(); }) return context_of<Context>(context).capabilities();
  static_cast<void>(context);
  return kCapabilities;
}

}  // namespace detail

// The table; `kCapabilities` are the bits known without a context.
template <typename Context, typename Group, std::uint64_t kCapabilities>
constexpr roda_transport transport(const char* name, const char* description, roda_progress_mode mode) {
  roda_transport table{};
  table.struct_size = sizeof table;
  table.abi_version = RODA_ABI_VERSION;
  table.name = name;
  table.description = description;
  table.progress_mode = mode;
  table.capabilities = kCapabilities;
  table.context_capabilities = &detail::capabilities<Context, kCapabilities>;
  detail::fill_context<Context>(&table);
  detail::fill_group<Context, Group>(&table);
  if constexpr ((kCapabilities & RODA_CAP_P2P) != 0) detail::fill_messages<Group>(&table);
  if constexpr ((kCapabilities & RODA_CAP_SIGNAL) != 0) detail::fill_signals<Group>(&table);
  if constexpr ((kCapabilities & (RODA_CAP_GET | RODA_CAP_PUT | RODA_CAP_MAP)) != 0)
    detail::fill_windows<Group>(&table);
  detail::fill_memory<Group>(&table);
  if constexpr ((kCapabilities & RODA_CAP_NATIVE) != 0) detail::fill_collectives<Group>(&table);
  return table;
}

}  // namespace roda::sdk
