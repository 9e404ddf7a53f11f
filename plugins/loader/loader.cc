#include "plugins/loader/loader.h"

#include <dlfcn.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "plugins/loader/offered_table.h"
#include "plugins/loader/plugin_file.h"

namespace roda::plugins {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

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

void Loader::settle(PluginRecord* record, Status status) {
  if (status.ok()) status = open(record);
  record->is_put_off = false;
  record->usable = status.ok();
  record->reason = status.message();
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

const roda_device* Loader::device_for(int memory_kind) const {
  for (const auto& record : records_) {
    if (record->device != nullptr && record->device->memory_kind == memory_kind) return record->device;
  }
  return nullptr;
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

const PluginRecord* Loader::find(const std::string& name) {
  PluginRecord* record = owner_of(name);
  if (record != nullptr && record->is_put_off) settle(record, Status());
  return record;
}

void Loader::open_all() {
  for (const auto& record : records_) {
    if (record->is_put_off) settle(record.get(), Status());
  }
}

std::vector<const PluginRecord*> Loader::records() const {
  std::vector<const PluginRecord*> list;
  for (const auto& record : records_) list.push_back(record.get());
  return list;
}

}  // namespace roda::plugins
