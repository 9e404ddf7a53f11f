#include "plugins/loader/offered_table.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "plugins/base/format.h"

namespace roda::plugins {
namespace {

struct Entry {
  std::uint64_t capability;  // 0: every table has it
  const char* name;
  std::size_t offset;
};

#define ENTRY(table, capability, name) \
  { capability, #name, offsetof(table, name) }
constexpr Entry kOfTransports[] = {
    ENTRY(roda_transport, 0, name),
    ENTRY(roda_transport, 0, probe),
    ENTRY(roda_transport, 0, context_create),
    ENTRY(roda_transport, 0, context_destroy),
    ENTRY(roda_transport, 0, context_capabilities),
    ENTRY(roda_transport, 0, progress),
    ENTRY(roda_transport, 0, event_fd),
    ENTRY(roda_transport, 0, arm),
    ENTRY(roda_transport, 0, group_create),
    ENTRY(roda_transport, 0, group_test),
    ENTRY(roda_transport, 0, group_abort),
    ENTRY(roda_transport, 0, group_destroy),
    ENTRY(roda_transport, RODA_CAP_P2P, send),
    ENTRY(roda_transport, RODA_CAP_P2P, recv),
    ENTRY(roda_transport, RODA_CAP_P2P | RODA_CAP_GET | RODA_CAP_PUT | RODA_CAP_NATIVE, request_test),
    ENTRY(roda_transport, RODA_CAP_SIGNAL, signal_count),
    ENTRY(roda_transport, RODA_CAP_SIGNAL, signal),
    ENTRY(roda_transport, RODA_CAP_SIGNAL, signal_value),
    ENTRY(roda_transport, RODA_CAP_GET | RODA_CAP_PUT | RODA_CAP_MAP, window_count),
    ENTRY(roda_transport, RODA_CAP_GET | RODA_CAP_PUT | RODA_CAP_MAP, window_open),
    ENTRY(roda_transport, RODA_CAP_GET | RODA_CAP_PUT | RODA_CAP_MAP, window_close),
    ENTRY(roda_transport, RODA_CAP_MAP, window_map),
    ENTRY(roda_transport, RODA_CAP_GET, get),
    ENTRY(roda_transport, RODA_CAP_PUT, put),
    ENTRY(roda_transport, RODA_CAP_ALLOCATE, memory_alloc),
    ENTRY(roda_transport, RODA_CAP_ALLOCATE, memory_free),
    ENTRY(roda_transport, RODA_CAP_REGISTER, memory_register),
    ENTRY(roda_transport, RODA_CAP_REGISTER, memory_deregister),
    ENTRY(roda_transport, RODA_CAP_NATIVE, collective_supported),
    ENTRY(roda_transport, RODA_CAP_NATIVE, collective_start),
    ENTRY(roda_transport, RODA_CAP_FAULT_TOLERANT, quiesced),
};
constexpr Entry kOfDevices[] = {
    ENTRY(roda_device, 0, name),  ENTRY(roda_device, 0, probe), ENTRY(roda_device, 0, alloc),
    ENTRY(roda_device, 0, free),  ENTRY(roda_device, 0, copy),  ENTRY(roda_device, 0, reduce),
    ENTRY(roda_device, 0, scale), ENTRY(roda_device, 0, pack),  ENTRY(roda_device, 0, unpack),
};
constexpr Entry kOfBootstraps[] = {
    ENTRY(roda_bootstrap, 0, name),  ENTRY(roda_bootstrap, 0, launched_here), ENTRY(roda_bootstrap, 0, start),
    ENTRY(roda_bootstrap, 0, rank),  ENTRY(roda_bootstrap, 0, size),          ENTRY(roda_bootstrap, 0, broadcast),
    ENTRY(roda_bootstrap, 0, agree), ENTRY(roda_bootstrap, 0, finish),
};
#undef ENTRY

bool is_null(const void* table, const Entry& entry) {
  void* pointer = nullptr;
  std::memcpy(&pointer, static_cast<const char*>(table) + entry.offset, sizeof pointer);
  return pointer == nullptr;
}

// `its`: what the errors call the table. It holds `least` bytes, or is refused.
template <typename Table>
Status adapt(const char* its, const Table* offered, std::size_t least, std::span<const Entry> entries, Table* table) {
  if (offered == nullptr) return Status::invalid(roda::format("{} entry returned no table", its));
  if (offered->abi_version != RODA_ABI_VERSION) return other_version(offered->abi_version);
  if (offered->struct_size < least) {
    return Status::invalid(roda::format("{} table of {} bytes is too short", its, offered->struct_size));
  }
  Table copy{};
  std::memcpy(&copy, offered, std::min<std::size_t>(offered->struct_size, sizeof copy));
  copy.struct_size = sizeof copy;
  for (const Entry& entry : entries) {
    if (entry.capability != 0 || !is_null(&copy, entry)) continue;
    return Status::invalid(roda::format("{} table leaves {} empty", its, entry.name));
  }
  *table = copy;
  return {};
}

}  // namespace

Status other_version(std::uint32_t theirs) {
  return Status::invalid(roda::format("built for ABI {} while this core speaks {}", theirs, RODA_ABI_VERSION));
}

Status adapt(const roda_transport* offered, roda_transport* table) {
  roda_transport copy{};
  RODA_RETURN_IF_ERROR(adapt("its", offered, offsetof(roda_transport, send), kOfTransports, &copy));
  if (copy.description == nullptr) copy.description = "";
  if (copy.progress_mode > RODA_PROGRESS_POLL) return Status::invalid("its progress mode is unknown");
  for (const Entry& entry : kOfTransports) {
    if (!is_null(&copy, entry)) continue;
    const bool is_cut_off = entry.offset + sizeof(void*) > offered->struct_size;
    if (!is_cut_off && (copy.capabilities & entry.capability) != 0) {
      return Status::invalid(roda::format("its capabilities promise {}, but its table leaves it empty", entry.name));
    }
    copy.capabilities &= ~entry.capability;
  }
  *table = copy;
  return {};
}

Status adapt(const roda_device* offered, roda_device* table) {
  RODA_RETURN_IF_ERROR(adapt("its", offered, offsetof(roda_device, stream_create), kOfDevices, table));
  if (table->description == nullptr) table->description = "";
  return {};
}

Status adapt(const roda_bootstrap* offered, roda_bootstrap* table) {
  // All that is not younger.
  return adapt("its bootstrap", offered, offsetof(roda_bootstrap, peer_lost), kOfBootstraps, table);
}

}  // namespace roda::plugins
