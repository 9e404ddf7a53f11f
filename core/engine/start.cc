#include "core/engine/engine.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <ranges>
#include <sstream>
#include <stdexcept>

#include "core/bootstrap/gather.h"
#include "core/bootstrap/hosts.h"
#include "core/bootstrap/join.h"
#include "core/bootstrap/link_speed.h"
#include "core/bootstrap/rendezvous.h"
#include "core/bootstrap/store_wire.h"
#include "core/engine/environment.h"
#include "core/engine/version.h"
#include "core/plan/explain.h"
#include "core/plan/user_algorithms.h"
#include "core/topology/exchange.h"
#include "core/topology/json.h"
#include "core/topology/lay_out.h"
#include "plugins/base/address.h"
#include "plugins/base/local_address.h"
#include "plugins/base/log.h"

extern char** environ;

namespace roda::engine {
namespace {

using Deadline = std::chrono::steady_clock::time_point;

// For every rank to say how it fared, after the others' deadline too.
constexpr std::chrono::seconds kLastWord{3};

// What is set to something that means nothing, and ends no job.
std::vector<std::string> odd_values(const Knobs& knobs) {
  std::vector<std::string> texts;
  const std::string levels = " trace debug info warning error fatal ";
  if (levels.find(" " + knobs.log_level + " ") == std::string::npos) {
    texts.push_back("HOROVOD_LOG_LEVEL=" + knobs.log_level + " is none of" + levels + "and means warning");
  }
  std::istringstream folders(knobs.plugin_path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::error_code error;
    if (folder.empty() || std::filesystem::is_directory(folder, error)) continue;
    texts.push_back("HOROVOD_PLUGIN_PATH names " + folder + ", which is no folder here");
  }
  return texts;
}

void warn_of_settings(const Knobs& knobs, const plugins::Loader& loader) {
  std::vector<std::string> declared, silent;
  for (const plugins::PluginRecord* r : loader.records()) {
    if (r->settings.empty()) silent.push_back(r->name);
  }
  for (const roda_setting* setting : loader.settings()) declared.emplace_back(setting->name);
  std::vector<std::string> all = unknown_settings(environ, declared, silent);
  all.insert(all.end(), knobs.warnings().begin(), knobs.warnings().end());
  for (std::string& text : odd_values(knobs)) all.push_back(std::move(text));
  for (const std::string& w : all) {
    if (knobs.rank.value_or(0) == 0) RODA_LOG(warning, "{}", w);
    if (knobs.rank.value_or(0) != 0) RODA_LOG(debug, "{}", w);
  }
}

Status sort_sets(int size, std::vector<std::vector<std::int32_t>>* sets) {
  for (auto& set : *sets) {
    std::ranges::sort(set);
    if (set.empty()) return Status::invalid("Tried to register an empty process set: a set needs at least one rank");
    for (std::size_t i = 0; i < set.size(); ++i) {
      if (set[i] < 0 || set[i] >= size) {
        return Status::invalid("Tried to register process set with invalid rank: " + std::to_string(set[i]));
      }
      if (i > 0 && set[i] == set[i - 1]) {
        return Status::invalid("Tried to register process set with duplicate rank: " + std::to_string(set[i]));
      }
    }
  }
  return {};
}

// " shm tcp"
std::string names_of(const Carriers::Transports& transports) {
  std::string names;
  for (const roda_transport* t : transports) names += std::string(" ") + t->name;
  return names;
}

std::string device_transports(const Planner& planner) {
  std::string text;
  for (int collective = 0; collective < RODA_COLLECTIVE_COUNT; ++collective) {
    const roda_collective_entry& entry = *roda_collective_of(collective);
    if (entry.input == RODA_NOTHING || (entry.traits & RODA_SUBMITTED) == 0) continue;
    text += (text.empty() ? "" : ", ") + std::string(roda_collective_name(collective)) + ":" +
            names_of(planner.carriers().on_device(collective).transports);
  }
  return text;
}

// What must be equal on all ranks, one NAME=value a line.
std::string fingerprint(const Knobs& knobs, const Planner& planner, const Topology& topology,
                        const std::vector<std::vector<std::int32_t>>& sets) {
  std::string text = knobs.agreement_text();
  if (!text.empty() && text.back() != '\n') text += '\n';
  text += "topology=" + topology::hash(topology) + "\n";
  text += user_algorithms_note();
  text += "selection table=" + std::to_string(planner.table().hash()) +
          "\ntransports=" + names_of(planner.carriers().for_host());
  text += "\ntransports on devices=" + device_transports(planner) + "\nprocess sets=";
  for (const auto& set : sets) {
    text += "[";
    for (const std::int32_t r : set) text += std::to_string(r) + " ";
    text += "]";
  }
  return text + "\n";
}

// What the others are told of a rank's failure.
Status in_words_of(int rank, const Status& status) {
  return {status.code(), roda::format("Rank {}: {}", rank, status.message()), status.rank() < 0 ? rank : status.rank()};
}

// "shm<tab>its code<tab>the reason" for each, a line each; no name begins as a failure's text does.
std::string text_of(const Refusals& refused) {
  std::string text;
  for (const auto& [name, why] : refused) text += roda::format("{}\t{}\t{}\n", name, why.code(), why.message());
  return text;
}

void add_refusals(const std::string& text, const std::string& whose, Refusals* refused) {
  std::istringstream lines(text);
  int code = 0;
  for (std::string name, reason; std::getline(lines, name, '\t') >> code && std::getline(lines.ignore(), reason);) {
    refused->try_emplace(name, code, whose + reason);
  }
}

// Every rank says how it fared so far, and what it can't use; the first failure becomes everybody's, else *refused what
// any rank refuses.
Status vote(const Parts& parts, const std::string& step, const Status& mine, Refusals* refused, Deadline deadline) {
  std::string result;
  const std::string text = mine.ok() ? text_of(*refused) : store_wire::text_of(mine);
  auto combine = [](const std::vector<std::string>& all, std::string* together) {
    Refusals of_all;
    for (int rank = 0; const std::string& said : all) {
      if (said.starts_with('-')) return in_words_of(rank, store_wire::failure_of(said));
      add_refusals(said, roda::format("rank {}: ", rank), &of_all);
      ++rank;
    }
    *together = text_of(of_all);
    return Status();
  };
  RODA_RETURN_IF_ERROR(
      gather(*parts.store, parts.rank, parts.topology.size(), parts.job_key + step, text, deadline, combine, &result));
  refused->clear();
  add_refusals(result, "", refused);
  return {};
}

// Where other hosts reach this one. A name of an interface that is wrong on one host is found before anybody waits for
// a connection with it. Where all ranks share a host nothing need go over an interface, so that it ends no job.
Status find_address(const std::vector<RankReport>& reports, Parts* parts) {
  const bool spans_hosts = parts->topology.hosts.size() > 1;
  if (parts->knobs.network_interface.empty()) {
    if (spans_hosts) parts->address = network_address(known_addresses(reports, parts->rank));
    return {};
  }
  SocketAddress named;
  const Status status = interface_address(parts->knobs.network_interface, &named);
  if (status.ok()) parts->address = named.host();
  if (status.ok()) return status;
  const std::string text =
      "HOROVOD_GLOO_IFACE on host " + parts->topology.host_of(parts->rank).name + ": " + status.message();
  if (spans_hosts) return Status(status.code(), text);
  if (parts->rank == 0) RODA_LOG(warning, "{}", text);
  return {};
}

// A rank that can carry nothing says so itself: in a list of who has what it would look as if the others were wrong.
Status check_transports(const Parts& parts, const Refusals& refused) {
  if (parts.topology.size() == 1 || !parts.planner->carriers().for_host().empty()) return {};
  std::string reasons;
  for (const auto& [name, why] : refused) reasons += (reasons.empty() ? ": " : "; ") + name + ": " + why.message();
  for (const plugins::PluginRecord* record : Environment::get().loader().records()) {
    if (record->usable || record->is_put_off || record->reason.empty()) continue;
    reasons += (reasons.empty() ? ": " : "; ") + record->name + ": " + record->reason;
  }
  return Status::unavailable("no transport can be used here" + reasons + ". `roda-info --plugins` lists them.");
}

// A wrong name would be found when there is something to write, and then it is too late.
Status make_flight_folder(const std::string& folder) {
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (folder.empty() || (!error && ::access(folder.c_str(), W_OK) == 0)) return {};
  return Status::invalid(roda::format("RODA_FLIGHT_FOLDER={}: nothing can be written there: {}", folder,
                                      error ? error.message() : std::strerror(errno)));
}

Status plan_without(const Refusals& refused, Parts* parts) {
  RODA_RETURN_IF_ERROR(Environment::get().make_planner(parts->knobs, refused, &parts->planner));
  RODA_LOG(debug, "planned with the transports{}", names_of(parts->planner->carriers().for_host()));
  return check_transports(*parts, refused);
}

// What is worth saying of the topology, and its file if one is asked for: neither may end the job. A limit below the
// number of ranks is somebody's mistake, and every rank under it says so; few cores are a choice.
void show(const Parts& parts) {
  const int rank = parts.rank;
  for (const topology::Shortage& shortage : topology::shortages(parts.topology)) {
    const bool is_mine = std::ranges::binary_search(shortage.ranks, rank);
    if (shortage.is_limit && is_mine) RODA_LOG(warning, "{}", shortage.text);
    if (!shortage.is_limit && rank == 0) RODA_LOG(info, "{}", shortage.text);
  }
  if (rank != 0 || parts.knobs.topology_dump_file.empty()) return;
  const Status written = topology::write_file(parts.knobs.topology_dump_file, parts.topology);
  if (!written.ok()) RODA_LOG(warning, "RODA_TOPOLOGY_DUMP_FILE: {}", written.message());
}

// The planner and the topology, once every rank has the same settings. `mine`: how this rank fared so far.
Status agree(const topology::View& view, const std::vector<RankReport>& reports, Status mine,
             const std::vector<std::vector<std::int32_t>>& sets, Deadline deadline, Parts* parts) {
  Store& store = *parts->store;
  Topology* const topology = &parts->topology;
  if (mine.ok()) mine = make_flight_folder(parts->knobs.flight_folder);
  const int ranks_here = static_cast<int>(topology->host_of(parts->rank).ranks.size());
  const Refusals planned_without = Environment::get().refusals(ranks_here);
  if (mine.ok()) mine = plan_without(planned_without, parts);
  // Planning has opened the plugins that somebody named: they are asked, too.
  Refusals refused = Environment::get().refusals(ranks_here);
  RODA_RETURN_IF_ERROR(vote(*parts, "/settings", mine, &refused, deadline));
  // A transport that one rank can't use is used by none. As a rule all ranks refuse the same ones, and the plan stands.
  if (!std::ranges::equal(refused | std::views::keys, planned_without | std::views::keys)) {
    RODA_RETURN_IF_ERROR(plan_without(refused, parts));
  }
  for (const auto& [name, why] : refused) {
    const bool is_loss = why.code() != RODA_ERR_PRECONDITION && parts->knobs.cpu_operations.empty();
    if (parts->rank == 0 && is_loss) {
      RODA_LOG(warning, "the job goes on without the transport {}: {}", name, why.message());
    }
  }
  RODA_RETURN_IF_ERROR(
      topology::share(store, parts->rank, reports, view, parts->job_key + "/topology", deadline, topology));
  RODA_RETURN_IF_ERROR(check_agreement(store, parts->rank, topology->size(), parts->job_key + "/agreement",
                                       fingerprint(parts->knobs, *parts->planner, *topology, sets), deadline));
  RODA_RETURN_IF_ERROR(topology::find_levels(parts->knobs.levels, topology));
  show(*parts);
  return {};
}

// Who can't reach a peer any more hears, within a moment, why the peer gave up; nothing when it did not.
Status first_cause(Store& store, const std::string& key, const Status& mine) {
  if (mine.code() != RODA_ERR_PEER && mine.code() != RODA_ERR_UNAVAILABLE) return mine;
  std::string nothing;
  const Status told =
      store.wait(key + "/a key that nobody puts", std::chrono::steady_clock::now() + kLastWord, &nothing);
  return told.rank() < 0 ? mine : told;
}

// Brings the ranks together: over our launcher's rendezvous, by a plugin whose launcher started them, or as another
// launcher's variables say.
Status meet(const Members& members, Parts* parts, Secret* secret) {
  Environment& environment = Environment::get();
  Knobs* const knobs = &parts->knobs;
  DeclaredJob declared;
  RODA_RETURN_IF_ERROR(find_declared_job(*knobs, std::getenv, &declared));
  RODA_RETURN_IF_ERROR(environment.find_bootstrap(*knobs, members, declared, &parts->bootstrap));
  if (!declared.launcher.empty()) {
    RODA_LOG(info, "started by {} ({}){}{}", declared.launcher, declared.evidence,
             declared.passed_over.empty() ? "" : "; passed over: ", declared.passed_over);
  }
  if (parts->bootstrap != nullptr) {
    return join_launched_job(*parts->bootstrap, environment.host(), members, declared, knobs, secret, &parts->store);
  }
  if (declared.size > 1 && members.is_everybody()) return join_declared_job(declared, knobs, secret, &parts->store);
  if (!members.ranks.empty() && members.ranks.size() != static_cast<std::size_t>(knobs->size.value_or(1))) {
    return Status::unsupported(
        roda::format("init with a list of {} of the job's {} ranks needs a launcher that a plugin serves (see "
                     "`roda-info`); use process sets instead",
                     members.ranks.size(), knobs->size.value_or(1)));
  }
  return open_store(*knobs, secret, &parts->store);
}

// HOROVOD_SIZE=1 makes a process a job of its own. Its other numbers and the rendezvous may be those of the rank that
// started it.
void be_alone(Knobs* knobs) {
  knobs->rank = 0;
  knobs->local_rank = knobs->local_size = knobs->cross_rank = knobs->cross_size = std::nullopt;
  knobs->rendezvous_addr.clear();
  knobs->controller.clear();
}

// The ranks come to one topology, one set of settings and one control plane.
Status come_together(const Secret& secret, std::vector<std::vector<std::int32_t>> static_sets, Deadline deadline,
                     Parts* parts) {
  topology::View view;
  Status mine = topology::look(parts->knobs, topology::DiscoverOptions(), &view);
  const int rank = parts->rank = parts->knobs.rank.value_or(0), size = parts->knobs.size.value_or(1);
  // Before anything whose form may differ between versions.
  RODA_RETURN_IF_ERROR(check_agreement(*parts->store, rank, size, parts->job_key + "/version",
                                       "version=" + std::string(kVersion) + "\n", deadline));
  std::vector<RankReport> reports;
  RODA_RETURN_IF_ERROR(discover(*parts->store, rank, size, parts->knobs, topology::note_of(view),
                                parts->job_key + "/discover", deadline, &reports));
  RODA_RETURN_IF_ERROR(find_hosts(reports, &parts->topology));
  parts->host_cores = host_cores(reports, parts->topology, rank);
  parts->has_core_each = has_core_each(reports, parts->topology, rank);
  // From here on the ranks fail together.
  if (mine.ok()) mine = sort_sets(size, &static_sets);
  if (mine.ok()) mine = find_address(reports, parts);
  RODA_RETURN_IF_ERROR(agree(view, reports, mine, static_sets, deadline, parts));
  topology::Link link = link_of(parts->topology);
  if (parts->topology.hosts.size() > 1 && parts->planner->table().asks_for_auto()) {
    RODA_RETURN_IF_ERROR(measure_link(*parts->store, parts->topology, rank,
                                      {parts->job_key + "/link", parts->address, parts->host_cores, deadline}, &link));
  }
  parts->planner->use_link(std::move(link));
  RODA_RETURN_IF_ERROR(Bells::open(&parts->bells));
  control::ControlPlane::Membership membership;
  membership.key = parts->job_key + "/control";
  membership.address = parts->address;
  membership.host = parts->topology.host_of(rank).name;
  membership.secret = secret;
  membership.deadline = deadline;
  // Before any transport gives up: the cause then names the host that can't be reached.
  membership.silence = std::chrono::milliseconds(parts->knobs.gloo_timeout_seconds * 1000LL * 2 / 3);
  membership.fan_out = parts->knobs.control_fan_out;
  membership.cache_capacity = parts->knobs.cache_capacity;
  mine = control::ControlPlane::connect(*parts->store, parts->topology, rank, membership, &parts->control);
  // The others may wait for this rank, and hear at once why in vain.
  if (!mine.ok() && mine.code() != RODA_ERR_TIMEOUT) return first_cause(*parts->store, membership.key, mine);
  Refusals none;
  RODA_RETURN_IF_ERROR(
      vote(*parts, "/connected", mine, &none, std::max(deadline, std::chrono::steady_clock::now() + kLastWord)));
  parts->host = Environment::get().host();
  parts->device = Environment::get().loader().device_for(RODA_MEMORY_CUDA);
  parts->static_sets = std::move(static_sets);
  return {};
}

std::string counted(std::size_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// A line a job for who asks what it is made of, and one a rank for who asks where it is.
void tell_of_start(const Parts& parts) {
  const char* threads = std::getenv("OMP_NUM_THREADS");
  const std::string cores = (threads == nullptr ? "" : "OMP_NUM_THREADS=" + std::string(threads) + ", ") +
                            counted(static_cast<std::size_t>(parts.host_cores), "core") + " for " +
                            counted(parts.topology.host_of(parts.rank).ranks.size(), "rank") + " of this host";
  std::string place = topology::print_rank(parts.topology, parts.rank);
  place.resize(place.find_last_not_of('\n') + 1);
  RODA_LOG(debug, "{}, on {}; {}", place, parts.topology.host_of(parts.rank).name, cores);
  if (parts.rank != 0 || !logging::enabled(logging::Level::info)) return;
  const Shape shape(parts.topology.levels, parts.rank);
  PlanQuery query;
  query.lie_on(shape);
  RODA_LOG(info, "Roda {}: {} on {}; transports:{}; {}{}{}; {}", kVersion,
           counted(static_cast<std::size_t>(parts.topology.size()), "rank"),
           counted(parts.topology.hosts.size(), "host"), names_of(parts.planner->carriers().for_host()),
           by_size(parts.planner.get(), query), parts.device != nullptr ? "; on GPUs " : "",
           parts.device != nullptr ? device_transports(*parts.planner) : "", cores);
}

}  // namespace

Status start_engine(const Members& members, std::vector<std::vector<std::int32_t>> static_sets,
                    std::uint64_t generation, HandleTable* handles, std::unique_ptr<Engine>* engine) {
  Parts parts;
  parts.handles = handles;
  Status status;
  parts.knobs = Knobs::from_environment(&status);
  RODA_RETURN_IF_ERROR(status);
  if (parts.knobs.size == 1) be_alone(&parts.knobs);
  Secret secret;
  RODA_RETURN_IF_ERROR(meet(members, &parts, &secret));
  const int rank = parts.knobs.rank.value_or(0);
  const int size = parts.knobs.size.value_or(1);
  if (rank < 0 || rank >= size) {
    return Status::invalid(roda::format("HOROVOD_RANK={} is not below HOROVOD_SIZE={}", rank, size));
  }
  logging::set_rank(rank);
  Environment& environment = Environment::get();
  static std::once_flag warned;  // of what stays as it is in later starts
  std::call_once(warned, warn_of_settings, parts.knobs, environment.loader());

  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(parts.knobs.gloo_timeout_seconds);
  parts.job_key = scope_of(generation);
  parts.generation = generation;
  // From here on until it leaves, the others hear at once of this rank's end.
  RODA_RETURN_IF_ERROR(parts.store->enter(parts.job_key, rank));
  status = claim_rank(*parts.store, rank, this_host(parts.knobs.hostname), parts.job_key, deadline);
  if (!status.ok()) {
    static_cast<void>(parts.store->leave(parts.job_key, Status()));  // it is no rank of this job
    return status;
  }
  status = come_together(secret, std::move(static_sets), deadline, &parts);
  const Status left = parts.store->leave(parts.job_key, status.ok() ? status : in_words_of(rank, status));
  if (status.ok()) status = left;
  if (!status.ok() && parts.control != nullptr) {
    // Others may have an engine by now: this is the cause for them, not this rank's end.
    parts.control->abort(status);
    static_cast<void>(parts.control->service(true));
  }
  RODA_RETURN_IF_ERROR(status);
  tell_of_start(parts);
  try {
    *engine = std::make_unique<Engine>(std::move(parts));
  } catch (const std::runtime_error& error) {  // no thread is to be had; the others know
    return Status::system(error.what());
  }
  return {};
}

}  // namespace roda::engine
