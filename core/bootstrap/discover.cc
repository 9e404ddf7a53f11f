#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "core/bootstrap/gather.h"
#include "core/bootstrap/topology.h"
#include "plugins/base/format.h"
#include "plugins/base/unique_fd.h"

namespace roda {

namespace {

// One line; -1 for a number that was not given, "-" for an empty text.
std::string to_line(const RankReport& report) {
  auto text = [](const std::string& value) { return value.empty() ? std::string("-") : value; };
  std::string cores;
  for (const auto core : report.cores.cores) cores += roda::format("{}{:x}", cores.empty() ? "" : " ", core);
  return roda::format("{} {} {} {} {} {} {} {} {} {} {}\n", text(report.host.boot_id), text(report.host.hostname),
                      report.host.network_namespace, report.pid, report.local_rank.value_or(-1),
                      report.local_size.value_or(-1), report.cross_rank.value_or(-1), report.cross_size.value_or(-1),
                      text(report.note), report.cores.quota, cores);
}

bool from_line(const std::string& line, RankReport* report) {
  std::istringstream in(line);
  int numbers[4];
  if (!(in >> report->host.boot_id >> report->host.hostname >> report->host.network_namespace >> report->pid)) {
    return false;
  }
  for (int& number : numbers) {
    if (!(in >> number)) return false;
  }
  if (!(in >> report->note)) return false;
  if (!(in >> report->cores.quota >> std::hex)) return false;
  for (std::uint64_t& word : report->cores.cores) {
    if (!(in >> word)) return false;
  }
  auto optional = [](int number) { return number < 0 ? std::nullopt : std::optional<int>(number); };
  report->local_rank = optional(numbers[0]);
  report->local_size = optional(numbers[1]);
  report->cross_rank = optional(numbers[2]);
  report->cross_size = optional(numbers[3]);
  return true;
}

Status concatenate(const std::vector<std::string>& all, std::string* result) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    RankReport ignored;
    if (!from_line(all[rank], &ignored)) {
      return Status(RODA_ERR_INVALID, roda::format("rank {} sent a malformed report", rank), static_cast<int>(rank));
    }
    *result += all[rank];
  }
  return {};
}

}  // namespace

Status discover(Store& store, int rank, int size, const Knobs& knobs, const std::string& note,
                const std::string& prefix, Store::Clock::time_point deadline, std::vector<RankReport>* reports) {
  if (size < 1 || rank < 0 || rank >= size) {
    return Status::invalid(roda::format("HOROVOD_RANK={} is not in a job of HOROVOD_SIZE={}", rank, size));
  }
  RankReport mine{this_host(knobs.hostname),
                  static_cast<int>(::getpid()),
                  note,
                  core_budget(),
                  knobs.local_rank,
                  knobs.local_size,
                  knobs.cross_rank,
                  knobs.cross_size};
  // Without it the others take this rank for one of another host.
  if (mine.host.boot_id.empty()) {
    const UniqueFd file(::open(kBootIdFile, O_RDONLY | O_CLOEXEC));
    if (!file && errno != ENOENT && errno != EACCES) {
      return Status::system(roda::format("opening {}: {}", kBootIdFile, std::strerror(errno)));
    }
  }
  std::string table;
  RODA_RETURN_IF_ERROR(gather(store, rank, size, prefix, to_line(mine), deadline, concatenate, &table));
  std::vector<RankReport> all;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (!from_line(line, &all.emplace_back())) return Status::unknown("a malformed table of ranks");
  }
  if (all.size() != static_cast<std::size_t>(size)) return Status::unknown("a table of ranks of the wrong size");
  *reports = std::move(all);
  return {};
}

}  // namespace roda
