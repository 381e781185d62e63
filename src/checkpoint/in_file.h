#pragma once

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <filesystem>
#include <utility>

namespace cairn::checkpoints {

/// Does something with what a file holds: its errors name the file.
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
