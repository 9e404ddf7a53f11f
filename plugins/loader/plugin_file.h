// What a plugin's file says about itself, read without running any of its code.
#pragma once

#include <roda/abi/transport.h>

#include <string>

#include "plugins/base/status.h"

namespace roda::plugins {

// Reads the data symbol `roda_plugin_info` from the file. Every offset is checked against the file's size, so a
// truncated or hostile file is an error in words ("not an ELF file", "no symbol roda_plugin_info"), never a crash. Does
// not judge the contents. *only_by_name (may be null): whether the file has the mark of <roda/abi/opening.h>. Any
// thread.
Status read_plugin_info(const std::string& path, roda_plugin_info_t* info, bool* only_by_name = nullptr);

}  // namespace roda::plugins
