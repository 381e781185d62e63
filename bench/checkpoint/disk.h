#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace cairn::bench {

/// One way to move the bytes of a checkpoint.
struct Way {
  std::string name;
  std::function<void()> move; ///< this is timed
  std::vector<double> seconds = {};
};

/// Runs all ways in turns, so that they see the same disk; `before` and `after`
/// are not counted.
void run_in_turns(
    std::vector<Way>& ways,
    int rounds,
    const std::function<void()>& before,
    const std::function<void()>& after);

/// Ways to write `bytes` to a new file `path`, fsync included.
std::vector<Way> ways_to_save(
    const std::filesystem::path& path,
    std::span<std::byte> bytes);

/// Ways to read the file into `bytes`, memory that exists already, as on
/// resuming.
std::vector<Way> ways_to_load(
    const std::filesystem::path& path,
    std::span<std::byte> bytes);

} // namespace cairn::bench
