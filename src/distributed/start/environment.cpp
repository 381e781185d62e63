#include <cairn/distributed/environment.h>

#include "distributed/start/slurm_nodelist.h"

#include <cairn/base/error.h>
#include <fmt/core.h>

#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <string_view>

namespace cairn::distributed {
namespace {

constexpr int any_int = std::numeric_limits<int>::max();

/// Reads one launcher's variables; `launcher` is its name in messages.
class Reader {
 public:
  Reader(const Lookup& lookup, std::string_view launcher)
      : lookup_(lookup), launcher_(launcher) {}

  bool has(const char* name) const { return lookup_(name).has_value(); }

  std::optional<std::string> text(const char* name) const {
    auto value = lookup_(name);
    if (value && value->empty()) {
      value.reset();
    }
    return value;
  }

  std::optional<int> number(const char* name, int least, int most) const {
    const auto value = text(name);
    if (!value) {
      return std::nullopt;
    }
    int result = 0;
    const char* end = value->data() + value->size();
    const auto parsed = std::from_chars(value->data(), end, result);
    if (parsed.ec != std::errc() || parsed.ptr != end || result < least ||
        result > most) {
      throw ConfigError(
          {.what = fmt::format(
               "{}=\"{}\" is not a whole number {}",
               name,
               *value,
               most == any_int ? fmt::format("of at least {}", least)
                               : fmt::format("from {} to {}", least, most)),
           .where = fmt::format("environment ({})", launcher_)});
    }
    return result;
  }

  /// Requires all of `names`, since one of them is set.
  void require(std::initializer_list<const char*> names) const {
    std::string set;
    std::string missing;
    for (const char* name : names) {
      const auto value = text(name);
      std::string& list = value ? set : missing;
      list += list.empty() ? "" : ", ";
      list += value ? fmt::format("{}={}", name, *value) : name;
    }
    if (!missing.empty()) {
      throw ConfigError(
          {.what = fmt::format("{} missing", missing),
           .where = fmt::format("environment ({})", launcher_),
           .values = fmt::format("set: {}", set.empty() ? "none" : set),
           .remedy = "set all of them, or none to run as a single process"});
    }
  }

 private:
  const Lookup& lookup_;
  std::string_view launcher_;
};

void check_ranks(const Environment& environment, std::string_view launcher) {
  if (environment.rank >= environment.world_size) {
    throw ConfigError(
        {.what = fmt::format(
             "rank {} is outside a world of {}",
             environment.rank,
             environment.world_size),
         .where = fmt::format("environment ({})", launcher)});
  }
}

void read_master_port(const Reader& reader, Environment& environment) {
  if (const auto port = reader.number("MASTER_PORT", 1, 65535)) {
    environment.master_port = static_cast<std::uint16_t>(*port);
  }
}

Environment from_torchrun(const Lookup& lookup) {
  const Reader reader(lookup, "torchrun");
  reader.require({"RANK", "WORLD_SIZE"});
  Environment result;
  result.source = Environment::Source::torchrun;
  result.rank = *reader.number("RANK", 0, any_int);
  result.world_size = *reader.number("WORLD_SIZE", 1, any_int);
  check_ranks(result, "torchrun");
  // A pod with one process (Kubeflow's PyTorchJob) has no local rank.
  result.local_rank = reader.number("LOCAL_RANK", 0, any_int).value_or(0);
  result.local_world_size =
      reader.number("LOCAL_WORLD_SIZE", 1, any_int).value_or(1);
  result.node_rank = reader.number("GROUP_RANK", 0, any_int).value_or(0);
  if (result.world_size > 1) {
    reader.require({"RANK", "WORLD_SIZE", "MASTER_ADDR"});
  }
  result.master_address =
      reader.text("MASTER_ADDR").value_or(result.master_address);
  read_master_port(reader, result);
  result.launcher_has_store =
      reader.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  result.attempt =
      reader.number("TORCHELASTIC_RESTART_COUNT", 0, any_int).value_or(0);
  return result;
}

Environment from_slurm(const Lookup& lookup) {
  const Reader reader(lookup, "Slurm");
  Environment result;
  result.source = Environment::Source::slurm;
  result.rank = *reader.number("SLURM_PROCID", 0, any_int);
  // A step may use fewer tasks than the job has.
  const char* tasks = reader.has("SLURM_STEP_NUM_TASKS")
      ? "SLURM_STEP_NUM_TASKS"
      : "SLURM_NTASKS";
  reader.require({"SLURM_PROCID", tasks});
  result.world_size = *reader.number(tasks, 1, any_int);
  check_ranks(result, "Slurm");
  if (result.world_size > 1) {
    reader.require({"SLURM_PROCID", tasks, "SLURM_LOCALID"});
  }
  result.local_rank = reader.number("SLURM_LOCALID", 0, any_int).value_or(0);
  result.local_world_size =
      reader.number("SLURM_NTASKS_PER_NODE", 1, any_int).value_or(1);
  result.node_rank = reader.number("SLURM_NODEID", 0, any_int).value_or(0);
  read_master_port(reader, result);
  if (const auto address = reader.text("MASTER_ADDR")) {
    result.master_address = *address;
  } else if (const auto step = reader.text("SLURM_STEP_NODELIST")) {
    result.master_address = first_slurm_host(*step);
  } else if (const auto job = reader.text("SLURM_NODELIST")) {
    result.master_address = first_slurm_host(*job);
  } else if (result.world_size > 1) {
    reader.require({"SLURM_PROCID", tasks, "SLURM_NODELIST"});
  }
  return result;
}

Environment from_open_mpi(const Lookup& lookup) {
  const Reader reader(lookup, "Open MPI");
  reader.require({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"});
  Environment result;
  result.source = Environment::Source::open_mpi;
  result.rank = *reader.number("OMPI_COMM_WORLD_RANK", 0, any_int);
  result.world_size = *reader.number("OMPI_COMM_WORLD_SIZE", 1, any_int);
  check_ranks(result, "Open MPI");
  if (result.world_size > 1) {
    reader.require(
        {"OMPI_COMM_WORLD_RANK",
         "OMPI_COMM_WORLD_SIZE",
         "OMPI_COMM_WORLD_LOCAL_RANK"});
  }
  result.local_rank =
      reader.number("OMPI_COMM_WORLD_LOCAL_RANK", 0, any_int).value_or(0);
  result.local_world_size =
      reader.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, any_int).value_or(1);
  read_master_port(reader, result);
  if (const auto address = reader.text("MASTER_ADDR")) {
    result.master_address = *address;
  } else if (result.local_world_size != result.world_size) {
    throw ConfigError(
        {.what = "MASTER_ADDR missing",
         .where = "environment (Open MPI)",
         .values = fmt::format(
             "{} ranks, {} of them here",
             result.world_size,
             result.local_world_size),
         .remedy = "mpirun does not say where rank 0 runs: pass "
                   "-x MASTER_ADDR=<its host>"});
  }
  return result;
}

} // namespace

std::optional<std::string> process_variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

Environment read_environment(const Lookup& lookup) {
  const Reader reader(lookup, "any");
  // MASTER_ADDR alone says nothing: batch scripts export it for srun.
  if (reader.has("RANK") || reader.has("WORLD_SIZE")) {
    return from_torchrun(lookup);
  }
  // An interactive allocation has SLURM_NTASKS, but no SLURM_PROCID: a program
  // started there without srun is alone.
  if (reader.text("SLURM_PROCID")) {
    return from_slurm(lookup);
  }
  if (reader.has("OMPI_COMM_WORLD_RANK") ||
      reader.has("OMPI_COMM_WORLD_SIZE")) {
    return from_open_mpi(lookup);
  }
  // LOCAL_RANK alone is no launcher's: notebooks and programs set it to pick a
  // GPU for a single process.
  Environment alone;
  alone.local_rank = reader.number("LOCAL_RANK", 0, any_int).value_or(0);
  return alone;
}

namespace {

std::optional<std::chrono::milliseconds> read_seconds(
    const Lookup& lookup,
    const char* name) {
  constexpr int most = 30 * 24 * 3600;
  const auto seconds = Reader(lookup, "Cairn").number(name, 1, most);
  return seconds
      ? std::optional<std::chrono::milliseconds>(std::chrono::seconds(*seconds))
      : std::nullopt;
}

} // namespace

std::optional<std::chrono::milliseconds> read_collective_timeout(
    const Lookup& lookup) {
  return read_seconds(lookup, "CAIRN_COLLECTIVE_TIMEOUT");
}

std::optional<bool> read_shared_memory(const Lookup& lookup) {
  const auto on = Reader(lookup, "Cairn").number("CAIRN_SHARED_MEMORY", 0, 1);
  return on ? std::optional<bool>(*on == 1) : std::nullopt;
}

std::optional<std::chrono::milliseconds> read_start_timeout(
    const Lookup& lookup) {
  return read_seconds(lookup, "CAIRN_START_TIMEOUT");
}

} // namespace cairn::distributed
