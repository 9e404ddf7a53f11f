// What makes a shared object a plugin: one macro in one source file.
#pragma once

#include <roda/abi/bootstrap.h>
#include <roda/abi/device.h>
#include <roda/abi/opening.h>
#include <roda/abi/transport.h>

// Emits the description that the loader reads from the file before any of its code runs.
#define RODA_PLUGIN_INFO(plugin_kind, plugin_name)                                             \
  extern "C" __attribute__((visibility("default"))) const roda_plugin_info_t roda_plugin_info; \
  extern "C" const roda_plugin_info_t roda_plugin_info                                         \
      __attribute__((used)) = {RODA_PLUGIN_MAGIC, RODA_ABI_VERSION, plugin_kind, plugin_name}; \
  static_assert(sizeof(plugin_name) <= sizeof(roda_plugin_info_t::name), "the plugin's name is too long")

// Emits the two symbols that the loader looks for. `plugin_name` is a string literal in lower case, `table` an
// expression of type const roda_transport*. Use it outside every namespace; build with hidden visibility, these two
// stay visible.
#define RODA_TRANSPORT_PLUGIN(plugin_name, table)                                              \
  RODA_PLUGIN_INFO("transport", plugin_name);                                                  \
  extern "C" __attribute__((visibility("default"))) const roda_transport* roda_transport_v2(); \
  extern "C" const roda_transport* roda_transport_v2() { return table; }                       \
  static_assert(true, "")

// The same for a device; `table` is an expression of type const roda_device*.
#define RODA_DEVICE_PLUGIN(plugin_name, table)                                           \
  RODA_PLUGIN_INFO("device", plugin_name);                                               \
  extern "C" __attribute__((visibility("default"))) const roda_device* roda_device_v2(); \
  extern "C" const roda_device* roda_device_v2() { return table; }                       \
  static_assert(true, "")

// Emits the mark of <roda/abi/opening.h>: this plugin is opened only where it is named.
#define RODA_PLUGIN_ONLY_BY_NAME                                                  \
  extern "C" __attribute__((visibility("default"))) const char roda_only_by_name; \
  extern "C" const char roda_only_by_name __attribute__((used)) = 1

// Emits the optional entry of <roda/abi/bootstrap.h>; `table` is an expression of type const roda_bootstrap*.
#define RODA_BOOTSTRAP_PLUGIN(table)                                                           \
  extern "C" __attribute__((visibility("default"))) const roda_bootstrap* roda_bootstrap_v2(); \
  extern "C" const roda_bootstrap* roda_bootstrap_v2() { return table; }                       \
  static_assert(true, "")
