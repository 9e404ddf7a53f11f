#include "plugins/loader/device_table.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

namespace roda::plugins {

Status adapt_device(const roda_device* offered, roda_device* table) {
  if (offered == nullptr) return Status::invalid("its entry returned no table");
  if (offered->abi_version != RODA_ABI_VERSION) {
    return Status::invalid("built for ABI " + std::to_string(offered->abi_version) + " while this core speaks " +
                           std::to_string(RODA_ABI_VERSION));
  }
  const std::size_t size = std::min<std::size_t>(offered->struct_size, sizeof *table);
  if (size < offsetof(roda_device, stream_create)) {
    return Status::invalid("its table of " + std::to_string(offered->struct_size) + " bytes is too short");
  }
  roda_device copy{};
  std::memcpy(&copy, offered, size);
  copy.struct_size = sizeof copy;
  const bool is_complete = copy.name != nullptr && copy.probe != nullptr && copy.alloc != nullptr &&
                           copy.free != nullptr && copy.copy != nullptr && copy.reduce != nullptr &&
                           copy.scale != nullptr && copy.pack != nullptr && copy.unpack != nullptr;
  if (!is_complete) return Status::invalid("its table leaves an entry empty that every device has");
  if (copy.description == nullptr) copy.description = "";
  *table = copy;
  return {};
}

}  // namespace roda::plugins
