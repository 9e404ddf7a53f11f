#include "core/bootstrap/join.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "plugins/base/format.h"

namespace roda {
namespace {

// Where a launcher tells a process its numbers. Null: nowhere.
struct Marks {
  const char* name;
  const char* mark;  // is set by this launcher alone
  const char* rank;
  const char* size;
  const char* local_size;
  const char* identity;
  std::uint32_t first = 0;  // the first rank's number
};

// The innermost first, which is the one that knows this process: torchrun runs inside an allocation, never around one.
constexpr Marks kTorchrun{"torchrun",   "TORCHELASTIC_RUN_ID", "RANK",
                          "WORLD_SIZE", "LOCAL_WORLD_SIZE",    "TORCHELASTIC_RUN_ID"};
constexpr Marks kOpenMpi{"mpirun",
                         "OMPI_COMM_WORLD_RANK",
                         "OMPI_COMM_WORLD_RANK",
                         "OMPI_COMM_WORLD_SIZE",
                         "OMPI_COMM_WORLD_LOCAL_SIZE",
                         "PMIX_NAMESPACE"};
constexpr Marks kMpich{"mpiexec", "PMI_RANK", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", nullptr};
constexpr Marks kVariables{"the environment", "MASTER_ADDR", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", nullptr};
constexpr Marks kSlurm{"srun", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", nullptr, "SLURM_JOB_ID"};
constexpr const Marks* kMarks[] = {&kTorchrun, &kOpenMpi, &kMpich, &kVariables, &kSlurm};

// Who numbers tasks and knows no ranks: with rank 0's place each task is one. WORLD_SIZE wins over their own count.
constexpr Marks kArrays[] = {
    {"an indexed Job", "MASTER_ADDR", "JOB_COMPLETION_INDEX", "WORLD_SIZE", nullptr, nullptr},
    {"a Slurm array", "MASTER_ADDR", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", nullptr, "SLURM_ARRAY_JOB_ID"},
    {"a PBS array", "MASTER_ADDR", "PBS_ARRAY_INDEX", "WORLD_SIZE", nullptr, "PBS_ARRAY_ID"},
    {"an SGE array", "MASTER_ADDR", "SGE_TASK_ID", "SGE_TASK_LAST", nullptr, "JOB_ID", 1},
};

// Slurm's numbers for what is no step of srun's: the shells of salloc and sbatch, and others.
constexpr std::uint32_t kFirstOfNoStep = 0xfffffff0;

constexpr std::uint32_t kFirstPort = 20'000;
constexpr std::uint32_t kPorts = 10'000;  // below what kernels give to those who don't ask for one

std::string text_of(const Knobs::Getter& variable, const char* name) {
  const char* text = name != nullptr ? variable(name) : nullptr;
  return text != nullptr ? text : "";
}

std::optional<std::uint32_t> number_of(const Knobs::Getter& variable, const char* name) {
  const std::string text = text_of(variable, name);
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_marked(const Marks& marks, const Knobs::Getter& variable) {
  if (text_of(variable, marks.mark).empty() || text_of(variable, marks.rank).empty()) return false;
  if (text_of(variable, marks.size).empty()) return false;
  if (&marks != &kSlurm) return true;
  const auto step = number_of(variable, marks.mark), tasks = number_of(variable, marks.size);
  return step && *step < kFirstOfNoStep && tasks && *tasks > 1;
}

std::optional<Marks> find_array(const Knobs::Getter& variable) {
  if (!text_of(variable, kVariables.rank).empty()) return std::nullopt;
  for (Marks marks : kArrays) {
    if (!text_of(variable, kVariables.size).empty()) marks.size = kVariables.size;
    // SGE says "undefined" outside of arrays.
    if (is_marked(marks, variable) && number_of(variable, marks.rank)) return marks;
  }
  return std::nullopt;
}

std::string shown(const Knobs::Getter& variable, const char* name) {
  return roda::format("{}={}", name, text_of(variable, name));
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

void find_host(const Marks& marks, const Knobs::Getter& variable, DeclaredJob* job) {
  const auto local_size = number_of(variable, marks.local_size);
  job->address = text_of(variable, "MASTER_ADDR");
  if (job->address.starts_with('[') && job->address.ends_with(']')) {
    job->address = job->address.substr(1, job->address.size() - 2);  // an IPv6 address, as in a URL
  }
  job->is_one_host = is_loopback(job->address) || (local_size && static_cast<int>(*local_size) == job->size);
  // srun gives its processes MPICH's variables, too.
  if (!is_marked(kSlurm, variable) || number_of(variable, kSlurm.size) != static_cast<std::uint32_t>(job->size)) return;
  job->is_one_host = job->is_one_host || number_of(variable, "SLURM_STEP_NUM_NODES") == 1;
  if (job->address.empty()) job->address = first_host(text_of(variable, "SLURM_STEP_NODELIST"));
}

// From the job's identity, where nobody gives one.
int port_of(const std::string& identity) {
  std::uint32_t hash = 0x811c9dc5;
  for (const unsigned char c : identity) hash = (hash ^ c) * 0x01000193;
  return static_cast<int>(kFirstPort + hash % kPorts);
}

Status read(const Marks& marks, const Knobs::Getter& variable, DeclaredJob* job) {
  const auto rank = number_of(variable, marks.rank), size = number_of(variable, marks.size);
  job->evidence = shown(variable, marks.rank) + ", " + shown(variable, marks.size);
  if (!rank || !size || *rank < marks.first || *rank - marks.first >= *size) {
    return Status::invalid(
        roda::format("{}: {} is no rank of a job (the first one's number is {}); correct the variables, or unset both",
                     marks.name, job->evidence, marks.first));
  }
  job->launcher = marks.name;
  job->rank = static_cast<int>(*rank - marks.first);
  job->size = static_cast<int>(*size);
  job->is_mpi = &marks == &kOpenMpi || &marks == &kMpich;
  job->is_innermost = &marks == &kTorchrun;
  find_host(marks, variable, job);
  job->identity = roda::format("{} {} {} {}", marks.name, job->size, text_of(variable, marks.identity),
                               text_of(variable, &marks == &kSlurm ? "SLURM_STEP_ID" : "MASTER_PORT"));
  const auto port = number_of(variable, "MASTER_PORT");
  job->port = port && *port > 0 && *port < 65536 ? static_cast<int>(*port) : port_of(job->identity);
  return {};
}

}  // namespace

std::string first_host(const std::string& list) {
  std::string host;
  for (std::size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const std::size_t end = std::min(list.find_first_of("-,]", i), list.size());
    host += list.substr(i + 1, end - i - 1);
    i = std::min(list.find(']', i), list.size());
  }
  return host;
}

Status find_declared_job(const Knobs& knobs, const Knobs::Getter& variable, DeclaredJob* job) {
  *job = DeclaredJob();
  job->is_ours = knobs.rank.has_value() || knobs.size.has_value() || !knobs.rendezvous_addr.empty();
  if (job->is_ours) return {};
  std::vector<const Marks*> found;
  for (const Marks* marks : kMarks) {
    if (marks == &kVariables && !found.empty() && found.front() == &kTorchrun) continue;  // they are torchrun's own
    if (is_marked(*marks, variable)) found.push_back(marks);
  }
  const auto is_larger = [&](const Marks* marks) { return number_of(variable, marks->size).value_or(2) > 1; };
  if (found.empty() && !text_of(variable, kVariables.rank).empty() && number_of(variable, kVariables.size) > 1u) {
    found.push_back(&kVariables);
  }
  const std::optional<Marks> array = found.empty() ? find_array(variable) : std::nullopt;
  if (array) found.push_back(&*array);
  DeclaredJob result;
  if (!found.empty()) {
    // mpirun may have started the one process that is a launcher itself.
    const auto larger = std::ranges::find_if(found, is_larger);
    if (found.front() != &kTorchrun && larger != found.end()) std::rotate(found.begin(), larger, larger + 1);
    RODA_RETURN_IF_ERROR(read(*found.front(), variable, &result));
    for (std::size_t i = 1; i < found.size(); ++i)
      result.passed_over += (i > 1 ? ", " : "") + std::string(found[i]->name);
  }
  *job = std::move(result);
  return {};
}

}  // namespace roda
