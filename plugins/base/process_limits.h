// Limits that whoever started this process set on it, and words for a user whose job meets one.
//
// Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace roda {

inline constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

// Bytes that this process may still map (RLIMIT_AS), and bytes that a file of its own may have (RLIMIT_FSIZE), memory
// without a name among them: making a longer one raises SIGXFSZ, which ends a program that does not ignore it.
// kNoLimit: as many as the machine has.
std::uint64_t address_space_left();
std::uint64_t largest_file();

// "RLIMIT_AS, `ulimit -v`: 1000 MiB, of which 900 are taken", and the same of the other; "" where there is none.
std::string address_space_limit();
std::string file_size_limit();

// The limit that a call of the system met which failed with `error`, and how to raise it: the end of a sentence that
// says what failed. "" where it met none that is known.
std::string limit_behind(int error);

// Why no thread is to be had (EAGAIN): the limits on this user's processes and on those of the control group. Never "".
std::string thread_limits();

}  // namespace roda
