#include "plugins/loader/loader.h"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include "plugins/base/format.h"
#include "plugins/loader/plugin_file.h"

namespace roda::plugins {
namespace {

namespace fs = std::filesystem;

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

Status other_version(std::uint32_t theirs) {
  return Status::invalid(roda::format("built for ABI {} while this core speaks {}", theirs, RODA_ABI_VERSION));
}

// What a plugin's entries return is checked, and a shorter (older) table fitted to this core's size: `offered` is
// copied into the full-size `*table`; entries that its struct_size leaves out are NULL, and RODA_CAP_* bits whose
// entries are absent through that are cleared. Refused, with the entry's name: a version other than this core's, a
// table too short to hold what every such table has, a required entry that is NULL, a capability announced without its
// entries.
//
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

// Text of a fixed field; false when it has no end or holds what no name may.
template <std::size_t N>
bool read_name(const char (&field)[N], std::string* name) {
  const auto* end = static_cast<const char*>(std::memchr(field, '\0', N));
  if (end == nullptr || end == field) return false;
  name->assign(field, end);
  return std::all_of(name->begin(), name->end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'; });
}

// Judged from the file alone: nothing of the plugin has run yet.
Status identify(PluginRecord* record, bool* only_by_name) {
  roda_plugin_info_t info{};
  RODA_RETURN_IF_ERROR(read_plugin_info(record->path, &info, only_by_name));
  if (info.magic != RODA_PLUGIN_MAGIC) return Status::invalid("its roda_plugin_info has the wrong magic number");
  record->abi_version = info.abi_version;
  if (info.abi_version != RODA_ABI_VERSION) {
    // The layout of everything behind the version belongs to that version; the name field is only quoted.
    read_name(info.name, &record->name);
    return other_version(info.abi_version);
  }
  std::string name;
  if (!read_name(info.name, &name)) return Status::invalid("its roda_plugin_info has no proper name");
  record->name = name;
  if (!read_name(info.kind, &record->kind)) return Status::invalid("its roda_plugin_info has no proper kind");
  if (record->kind != "transport" && record->kind != "device") {
    return Status::invalid("a plugin of kind '" + record->kind + "', which is neither a transport nor a device");
  }
  return {};
}

// Fills the table with what the entry of that symbol offers. `what`: "table", for errors.
template <typename Table>
Status take_table(void* library, const char* symbol, const PluginRecord& record, const char* what, Table* table) {
  const auto entry = reinterpret_cast<const Table* (*)()>(::dlsym(library, symbol));
  if (entry == nullptr) return Status::invalid(std::string("missing symbol ") + symbol);
  RODA_RETURN_IF_ERROR(adapt(entry(), table));
  if (record.name == table->name) return {};
  return Status::invalid("its file says '" + record.name + "', its " + what + " '" + table->name + "'");
}

// By now the plugin may know more about what it found, so its description is taken after this.
template <typename Table>
Status probe(const Table& table, const roda_host& host) {
  roda_error error = make_error();
  if (table.probe(&host, &error) == RODA_OK) return {};
  return Status::unavailable(error.message[0] != '\0' ? error.message : "its probe failed and gave no reason");
}

std::vector<const roda_setting*> settings_of(void* library) {
  std::vector<const roda_setting*> all;
  const auto entry = reinterpret_cast<roda_settings_entry>(::dlsym(library, RODA_SETTINGS_SYMBOL));
  for (std::uint32_t i = 0; entry != nullptr && entry(i) != nullptr; ++i) all.push_back(entry(i));
  return all;
}

// What the file is called by until its own word for it could be read.
std::string name_of_file(const std::string& path) {
  const std::string stem = fs::path(path).stem().string();
  return stem.starts_with("roda_") ? stem.substr(5) : stem;
}

// Only a file that proved to be a plugin of this ABI can shadow others; a broken one merely has a name.
bool owns_name(const PluginRecord& record) { return !record.kind.empty(); }

std::vector<std::string> shared_objects(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".so") paths.push_back(at->path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Signals belong to the program, whatever the libraries that a plugin brings along think.
class SignalKeeper {
 public:
  SignalKeeper() {
    for (int number = 1; number < NSIG; ++number)
      known_[at(number)] = ::sigaction(number, nullptr, &actions_[at(number)]) == 0;
  }
  ~SignalKeeper() {
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction now {};
      if (!known_[at(number)] || ::sigaction(number, nullptr, &now) != 0) continue;
      const struct sigaction& before = actions_[at(number)];
      if (now.sa_sigaction != before.sa_sigaction) ::sigaction(number, &before, nullptr);
    }
  }
  SignalKeeper(const SignalKeeper&) = delete;
  SignalKeeper& operator=(const SignalKeeper&) = delete;

 private:
  static std::size_t at(int number) { return static_cast<std::size_t>(number); }
  struct sigaction actions_[NSIG] = {};
  bool known_[NSIG] = {};
};

// The folder of the shared library or program that this function was linked into; empty if the linker can't say.
fs::path own_folder() {
  Dl_info info{};
  link_map* map = nullptr;
  const auto address = reinterpret_cast<void*>(&own_folder);
  if (::dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) return {};
  // A program's entry has no name of its own, and its dli_fname is only what argv[0] said.
  const bool is_program = map == nullptr || map->l_name == nullptr || *map->l_name == '\0';
  std::error_code error;
  const fs::path file = fs::canonical(is_program ? "/proc/self/exe" : info.dli_fname, error);
  return error ? fs::path() : file.parent_path();
}

// Where roda-build-plugin puts what it built for this user; empty without a home.
std::string users_folder() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && *data == '/') return std::string(data) + "/roda/plugins";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.local/share/roda/plugins" : "";
}

}  // namespace

std::vector<std::string> Loader::search_path() {
  std::vector<std::string> folders;
  const char* named = std::getenv("HOROVOD_PLUGIN_PATH");
  std::istringstream list(named != nullptr ? named : "");
  for (std::string folder; std::getline(list, folder, ':');) {
    if (!folder.empty()) folders.push_back(folder);
  }
  if (std::string users = users_folder(); !users.empty()) folders.push_back(std::move(users));
  const fs::path own = own_folder();
  if (own.empty()) return folders;
  // Beside a library, below a wheel's package, and from a program in bin/ over to the library folder.
  for (const char* relative : {"roda/plugins", "../lib/roda/plugins", "../" RODA_LIBDIR "/roda/plugins", "plugins"}) {
    std::string path = (own / relative).lexically_normal().string();
    if (folders.empty() || folders.back() != path) folders.push_back(std::move(path));
  }
  return folders;
}

void Loader::scan(const std::vector<std::string>& folders) {
  std::set<std::string> seen;
  for (const std::string& folder : folders) {
    std::error_code error;
    const std::string real = fs::canonical(folder, error).string();
    if (error || !seen.insert(real).second) continue;
    for (const std::string& path : shared_objects(folder)) add(path, true);
  }
}

const PluginRecord& Loader::add(const std::string& path, bool may_put_off) {
  auto record = std::make_unique<PluginRecord>();
  record->path = path;
  record->name = name_of_file(path);
  bool only_by_name = false;
  Status status = identify(record.get(), &only_by_name);
  const PluginRecord* winner = status.ok() ? owner_of(record->name) : nullptr;
  if (winner != nullptr && owns_name(*winner)) status = Status::invalid("shadowed by " + winner->path);
  record->is_put_off = status.ok() && only_by_name && may_put_off;
  if (record->is_put_off) {
    record->reason = "not opened: it is opened only where it is named";
  } else {
    settle(record.get(), status);
  }
  records_.push_back(std::move(record));
  return *records_.back();
}

Status Loader::open(PluginRecord* record) {
  const SignalKeeper keeper;
  // Never closed again: the plugin's threads, thread-locals and exit handlers would outlive its code.
  void* library = ::dlopen(record->path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Status::unavailable(::dlerror());
  record->settings = settings_of(library);
  return record->kind == "device" ? open_device(library, record) : open_transport(library, record);
}

Status Loader::open_transport(void* library, PluginRecord* record) {
  tables_.push_back(std::make_unique<roda_transport>());
  roda_transport* table = tables_.back().get();
  RODA_RETURN_IF_ERROR(take_table(library, RODA_TRANSPORT_SYMBOL, *record, "table", table));
  record->description = table->description;
  record->offered = table;
  RODA_RETURN_IF_ERROR(probe(*table, host_));
  record->description = table->description;
  if (::dlsym(library, RODA_BOOTSTRAP_SYMBOL) != nullptr) {
    auto bootstrap = std::make_unique<roda_bootstrap>();
    RODA_RETURN_IF_ERROR(take_table(library, RODA_BOOTSTRAP_SYMBOL, *record, "bootstrap table", bootstrap.get()));
    record->bootstrap = bootstrap.get();
    bootstraps_.push_back(std::move(bootstrap));
  }
  record->transport = table;
  return {};
}

Status Loader::open_device(void* library, PluginRecord* record) {
  auto table = std::make_unique<roda_device>();
  RODA_RETURN_IF_ERROR(take_table(library, RODA_DEVICE_SYMBOL, *record, "table", table.get()));
  RODA_RETURN_IF_ERROR(probe(*table, host_));
  record->description = table->description;
  record->device = table.get();
  devices_.push_back(std::move(table));
  return {};
}

PluginRecord* Loader::owner_of(const std::string& name) const {
  PluginRecord* broken = nullptr;
  for (const auto& record : records_) {
    if (record->name != name) continue;
    if (owns_name(*record)) return record.get();
    if (broken == nullptr) broken = record.get();
  }
  return broken;
}

}  // namespace roda::plugins
