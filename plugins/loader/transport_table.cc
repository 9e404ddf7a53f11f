#include "plugins/loader/transport_table.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

namespace roda::plugins {
namespace {

struct Entry {
  std::uint64_t capability;  // 0: every transport has it
  const char* name;
  std::size_t offset;
};

#define ENTRY(capability, name) \
  { capability, #name, offsetof(roda_transport, name) }
constexpr Entry kEntries[] = {
    ENTRY(0, probe),
    ENTRY(0, context_create),
    ENTRY(0, context_destroy),
    ENTRY(0, context_capabilities),
    ENTRY(0, progress),
    ENTRY(0, event_fd),
    ENTRY(0, arm),
    ENTRY(0, group_create),
    ENTRY(0, group_test),
    ENTRY(0, group_abort),
    ENTRY(0, group_destroy),
    ENTRY(RODA_CAP_P2P, send),
    ENTRY(RODA_CAP_P2P, recv),
    ENTRY(RODA_CAP_P2P | RODA_CAP_GET | RODA_CAP_PUT | RODA_CAP_NATIVE, request_test),
    ENTRY(RODA_CAP_SIGNAL, signal_count),
    ENTRY(RODA_CAP_SIGNAL, signal),
    ENTRY(RODA_CAP_SIGNAL, signal_value),
    ENTRY(RODA_CAP_GET | RODA_CAP_PUT | RODA_CAP_MAP, window_count),
    ENTRY(RODA_CAP_GET | RODA_CAP_PUT | RODA_CAP_MAP, window_open),
    ENTRY(RODA_CAP_GET | RODA_CAP_PUT | RODA_CAP_MAP, window_close),
    ENTRY(RODA_CAP_MAP, window_map),
    ENTRY(RODA_CAP_GET, get),
    ENTRY(RODA_CAP_PUT, put),
    ENTRY(RODA_CAP_ALLOCATE, memory_alloc),
    ENTRY(RODA_CAP_ALLOCATE, memory_free),
    ENTRY(RODA_CAP_REGISTER, memory_register),
    ENTRY(RODA_CAP_REGISTER, memory_deregister),
    ENTRY(RODA_CAP_NATIVE, collective_supported),
    ENTRY(RODA_CAP_NATIVE, collective_start),
    ENTRY(RODA_CAP_FAULT_TOLERANT, quiesced),
};
#undef ENTRY

bool is_null(const roda_transport& table, const Entry& entry) {
  void (*function)() = nullptr;
  std::memcpy(&function, reinterpret_cast<const char*>(&table) + entry.offset, sizeof function);
  return function == nullptr;
}

Status check_entry(roda_transport* table, const Entry& entry, std::size_t offered_size) {
  if (!is_null(*table, entry)) return {};
  if (entry.capability == 0) return Status::invalid(std::string("its table leaves ") + entry.name + " empty");
  const bool cut_off = entry.offset + sizeof(void (*)()) > offered_size;
  if (!cut_off && (table->capabilities & entry.capability) != 0) {
    return Status::invalid(std::string("its capabilities promise ") + entry.name + ", but its table leaves it empty");
  }
  table->capabilities &= ~entry.capability;
  return {};
}

std::string versions(std::uint32_t theirs) {
  return "built for ABI " + std::to_string(theirs) + " while this core speaks " + std::to_string(RODA_ABI_VERSION);
}

}  // namespace

Status adapt_transport(const roda_transport* offered, roda_transport* table) {
  if (offered == nullptr) return Status::invalid("its entry returned no table");
  if (offered->abi_version != RODA_ABI_VERSION) return Status::invalid(versions(offered->abi_version));
  const std::size_t size = std::min<std::size_t>(offered->struct_size, sizeof *table);
  if (size < offsetof(roda_transport, send)) {
    return Status::invalid("its table of " + std::to_string(offered->struct_size) +
                           " bytes is too short to hold the entries for groups");
  }
  roda_transport copy{};
  std::memcpy(&copy, offered, size);
  copy.struct_size = sizeof copy;
  if (copy.name == nullptr) return Status::invalid("its table has no name");
  if (copy.description == nullptr) copy.description = "";
  if (copy.progress_mode > RODA_PROGRESS_POLL) return Status::invalid("its progress mode is unknown");
  for (const Entry& entry : kEntries) RODA_RETURN_IF_ERROR(check_entry(&copy, entry, size));
  *table = copy;
  return {};
}

}  // namespace roda::plugins
