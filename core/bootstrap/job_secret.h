// Where the job's secret comes from.
#pragma once

#include <string>

#include "core/knobs/knobs.h"
#include "plugins/base/secret.h"
#include "plugins/base/status.h"

namespace roda {

// From HOROVOD_SECRET_FILE (refused unless it is a regular file of this user that nobody else can read; one newline at
// its end does not count), where that can't be read from HOROVOD_SECRET_FD (a pipe or file, read to its end once per
// process and kept for later calls), without either from _HOROVOD_SECRET_KEY (base64). No source at all, or one that is
// too short, is an error that says what to set. A number of a descriptor says little in a program that a rank started,
// so the file comes first.
Status load_secret(const Knobs& knobs, Secret* secret);

Status read_secret_file(const std::string& path, Secret* secret);
Status read_secret_fd(int fd, Secret* secret);  // closes the descriptor
Status decode_base64(std::string_view text, Secret* secret);

// 64 hexadecimal characters from 32 random bytes: survives files, pipes and text editors.
Status generate_secret(Secret* secret);

}  // namespace roda
