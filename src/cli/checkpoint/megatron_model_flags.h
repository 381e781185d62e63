#pragma once

#include <cairn/checkpoints/megatron.h>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace cairn::cli {

/// Megatron's flags about a model: its old files do not say what they hold.
class MegatronModelFlags {
 public:
  void add_to(CLI::App& app);
  /// As reading wants them.
  checkpoints::MegatronReadOptions reading() const;
  /// What else the files should say, under the args' name.
  void expect(const std::string& name, std::int64_t value);

 private:
  std::map<std::string, std::optional<std::int64_t>> numbers_; ///< by arg
  std::optional<std::int64_t> vocabulary_;
};

} // namespace cairn::cli
