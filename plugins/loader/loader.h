// Finds, opens, checks and lists plugins.
//
//   Loader loader(*host.table());
//   loader.scan();
//   const PluginRecord* gloo = loader.find("gloo");   // null: no file of that name; otherwise ask ->usable, ->reason
//
// Threads: a Loader is used by one thread at a time; the tables it hands out may be called as the ABI says.
#pragma once

#include <roda/abi/bootstrap.h>
#include <roda/abi/device.h>
#include <roda/abi/host.h>
#include <roda/abi/settings.h>
#include <roda/abi/transport.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugins/base/status.h"

namespace roda::plugins {

// One file that was looked at. Records never leave the list, so that a user can be told why something is not used.
struct PluginRecord {
  std::string name;  // as the file says; its file name until that could be read
  std::string kind;  // "transport", "device"; "" until it could be read
  std::string path;
  std::uint32_t abi_version = 0;
  std::string description;                    // the plugin's own line: library and version
  std::vector<const roda_setting*> settings;  // that it declares (<roda/abi/settings.h>), usable or not
  bool usable = false;
  std::string reason;       // why not, in words; "" when usable
  bool is_put_off = false;  // not opened so far: nobody has named it (<roda/abi/opening.h>)
  // Complete (never shorter than this core's struct), lives as long as the Loader. Null unless it is a usable
  // transport.
  const roda_transport* transport = nullptr;
  // The same, whether its probe found it usable on this machine or not: for plans for other machines, which call none
  // of its entries but collective_supported.
  const roda_transport* offered = nullptr;
  // How the plugin brings a job together that its own launcher started, as complete; null when it does not, or is not
  // usable.
  const roda_bootstrap* bootstrap = nullptr;
  // The same of a device; null unless it is usable.
  const roda_device* device = nullptr;
};

class Loader {
 public:
  explicit Loader(const roda_host& host) : host_(host) {}
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Folders in order: HOROVOD_PLUGIN_PATH (colon-separated), roda/plugins of the user's data (XDG_DATA_HOME, else
  // ~/.local/share), then roda/plugins beside the library or program that contains this code. Folders that do not exist
  // are listed too.
  static std::vector<std::string> search_path();

  // Looks at every *.so of the search path, in the order of the path and then of file names, and probes what can be
  // opened, but for what wants to be opened only by name. What a library does to the process's signals as it is opened
  // and probed is undone. The first plugin of a name wins, usable or not; later ones are recorded as shadowed and not
  // opened.
  void scan() { scan(search_path()); }
  void scan(const std::vector<std::string>& folders);

  // Looks at one file, whatever it is called; for tools that are given a path. The record is also in records().
  const PluginRecord& add(const std::string& path) { return add(path, false); }

  // The record that owns the name, usable or not: the first file that says it is a plugin of that name and of this
  // core's ABI, else the first that failed to say so. Null when there is neither. Opens what was put off.
  const PluginRecord* find(const std::string& name) {
    PluginRecord* record = owner_of(name);
    if (record != nullptr && record->is_put_off) settle(record, Status());
    return record;
  }
  // Opens all that was put off, for those who want to know of everything.
  void open_all() {
    for (const auto& record : records_) {
      if (record->is_put_off) settle(record.get(), Status());
    }
  }
  // In the order they were looked at.
  std::vector<const PluginRecord*> records() const {
    std::vector<const PluginRecord*> list;
    for (const auto& record : records_) list.push_back(record.get());
    return list;
  }
  // The settings that the plugins declare which were opened, usable or not.
  std::vector<const roda_setting*> settings() const {
    std::vector<const roda_setting*> all;
    for (const auto& record : records_) all.insert(all.end(), record->settings.begin(), record->settings.end());
    return all;
  }
  // The usable device of that kind of memory; null when there is none.
  const roda_device* device_for(int memory_kind) const {
    for (const auto& record : records_) {
      if (record->device != nullptr && record->device->memory_kind == memory_kind) return record->device;
    }
    return nullptr;
  }

 private:
  PluginRecord* owner_of(const std::string& name) const;
  const PluginRecord& add(const std::string& path, bool may_put_off);
  void settle(PluginRecord* record, Status status) {
    if (status.ok()) status = open(record);
    record->is_put_off = false;
    record->usable = status.ok();
    record->reason = status.message();
  }
  Status open(PluginRecord* record);
  Status open_transport(void* library, PluginRecord* record);
  Status open_device(void* library, PluginRecord* record);

  const roda_host& host_;
  std::vector<std::unique_ptr<PluginRecord>> records_;
  std::vector<std::unique_ptr<roda_transport>> tables_;
  std::vector<std::unique_ptr<roda_bootstrap>> bootstraps_;
  std::vector<std::unique_ptr<roda_device>> devices_;
};

}  // namespace roda::plugins
