#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::launch {

/// A machine and the slots on it (GPUs, or just places for a rank) that are
/// used.
struct Host {
  std::string name;
  std::vector<int> slots;
  bool operator==(const Host&) const = default;
};

/// Parses an MPI style host file: lines such as `worker-1 slots=4`, comments
/// from `#` on, blank lines. `file` is for messages only. Throws ConfigError
/// for any other line, a host named twice, and a file without hosts.
std::vector<Host> parse_hostfile(std::string_view text, std::string_view file);

std::vector<Host> read_hostfile(const std::filesystem::path& file);

/// A host with slots 0 … count-1.
Host host_with_slots(std::string name, int count);

/// True when `name` is safe to pass to ssh and to write in a host filter:
/// letters, digits, '.', '_' and '-', not starting with '-'.
bool is_host_name(std::string_view name);

} // namespace cairn::launch
