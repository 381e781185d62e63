#pragma once

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <filesystem>
#include <utility>

namespace cairn::checkpoints {

/// Calls `call`, which works on the content of a file, and names the file in
/// its errors.
template <typename Call>
auto in_file(const std::filesystem::path& file, const Call& call) {
  try {
    return call();
  } catch (const CheckpointError& error) {
    Problem problem = error.problem();
    if (!problem.where.starts_with(file.string())) {
      problem.where = problem.where.empty()
          ? file.string()
          : fmt::format("{}: {}", file.string(), problem.where);
    }
    throw CheckpointError(std::move(problem));
  }
}

} // namespace cairn::checkpoints
