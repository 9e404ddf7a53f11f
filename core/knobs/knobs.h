// Every HOROVOD_* setting, read once into a typed object. The table behind it (core/knobs/table.h) is the one place
// where a setting is described, a plugin's own table (<roda/abi/settings.h>) that of a plugin's; `describe` prints
// them.
#pragma once

#include <roda/abi/settings.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/base/status.h"

namespace roda {

using DeclaredSettings = std::vector<const roda_setting*>;  // plugins' own

// A value: copy it freely. Reading the environment is not safe against a concurrent setenv, so it is done once, at
// init.
struct Knobs {
  // The text of a variable, or null when it is unset.
  using Getter = std::function<const char*(const char* name)>;

  Knobs();  // the defaults
  // Unset and empty variables keep the default. On a malformed value *status names the variable, the value and the
  // expected form, and the defaults are returned.
  static Knobs from_environment(const Getter& getter, Status* status);
  static Knobs from_environment(Status* status);  // from getenv

  // Topology as a launcher gives it; unset without one.
  std::optional<int> rank, size, local_rank, local_size, cross_rank, cross_size;
  std::string hostname;         // empty: the machine's own name
  std::string rendezvous_addr;  // empty: a job of one process
  int rendezvous_port{};        // -1: not given
  std::string secret_file;
  int secret_fd{};            // -1: not given
  std::string legacy_secret;  // base64

  std::int64_t fusion_threshold{};      // bytes, 0: no fusion
  std::optional<double> cycle_time_ms;  // unset: no window
  int cache_capacity{};                 // entries, 0: no cache
  int outstanding_buckets{};
  std::int64_t wire_residual_bytes{};  // 0: no error feedback
  int control_fan_out{};
  bool disable_group_fusion{};
  bool deterministic{};
  bool dynamic_process_sets{};
  std::string thread_affinity;  // cores of the engines' threads, by local rank; empty: not pinned

  // Lower case; empty: chosen by what is usable.
  std::string controller, cpu_operations, gpu_operations;
  std::string gpu_allreduce, gpu_allgather, gpu_broadcast, gpu_alltoall, gpu_reducescatter;
  std::string select;                // rules in the grammar of the selection table
  std::optional<double> wire_bound;  // of what wire formats make sums differ by (schedule::error_bound()); unset: none
  std::string plugin_path;
  std::string topology_file, topology_dump_file;  // paths; empty: none
  bool hierarchical_allreduce{}, hierarchical_allgather{}, hierarchical_adasum{}, torus_allreduce{};
  std::string levels;             // of compositions; empty: hosts
  std::string network_interface;  // for our own connections and for Gloo; empty: chosen
  int gloo_timeout_seconds{};     // connecting, and an operation without progress
  double gpu_timeout_seconds{};   // a collective on GPUs
  double abort_timeout_seconds{};
  bool mpi_threads_disable{};
  int num_nccl_streams{};
  bool enable_async_completion{};

  std::string timeline;  // path, or DYNAMIC; empty: off
  bool timeline_mark_cycles{};
  std::string flight_folder;  // empty: no dumps
  bool stall_check_disable{};
  bool elastic{};
  int stall_check_seconds{};
  int stall_shutdown_seconds{};  // 0: never
  bool autotune{};
  std::string autotune_log;  // path; empty: none
  int autotune_warmup{}, autotune_steps{}, autotune_most{};
  double autotune_noise{};
  std::string log_level;
  bool log_hide_time{};

  // HOROVOD_CONTROLLER names the launcher's rendezvous, by the name that it has in Horovod.
  bool names_own_rendezvous() const { return controller == "gloo"; }

  // Was the variable set (to anything, the default included)? Some settings are fixed for autotuning by that.
  bool is_set(std::string_view name) const;
  // What was asked for, if anything.
  std::optional<bool> async_completion() const {
    if (!is_set("HOROVOD_ENABLE_ASYNC_COMPLETION")) return std::nullopt;
    return enable_async_completion;
  }

  // Odd but accepted values (a flag that is no number, a setting without effect in this version), one sentence each.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // The whole table and what plugins declare, with the values in force and where they come from. Secrets are not shown.
  std::string describe(bool as_json, const DeclaredSettings& of_plugins) const;

  // The settings that must be the same on all ranks, one "NAME=value" per line in a fixed order.
  std::string agreement_text() const;

 private:
  std::vector<std::optional<std::string>> given_;  // by row of the table: the text from the environment
  std::vector<std::string> warnings_;
};

// An error for a value that a plugin will refuse: the job ends before it is asked.
Status check(const DeclaredSettings& of_plugins, const Knobs::Getter& getter);

// A warning for every HOROVOD_* and RODA_* name in `environment` ("NAME=value" texts, null-terminated) that no row
// describes and no plugin declares, with the nearest known name. `silent`: plugins that declare nothing; what begins
// with HOROVOD_<PLUGIN>_ or RODA_<PLUGIN>_ is their own business, unless it is almost a known name. RODA_TEST_* belongs
// to tests.
std::vector<std::string> unknown_settings(const char* const* environment, const std::vector<std::string>& declared,
                                          const std::vector<std::string>& silent);

}  // namespace roda
