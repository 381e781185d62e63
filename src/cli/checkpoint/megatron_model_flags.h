#pragma once

#include <cairn/checkpoints/megatron.h>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace cairn::cli {

/// Megatron's flags about a model: its old files do not describe their model.
class MegatronModelFlags {
 public:
  void add_to(CLI::App& app);
  /// The flags as options for reading.
  checkpoints::MegatronReadOptions reading() const;
  /// Adds a value that the files should have, under the name of Megatron's
  /// args.
  void expect(const std::string& name, std::int64_t value);

 private:
  /// Keys are the names in Megatron's args.
  std::map<std::string, std::optional<std::int64_t>> numbers_;
  std::optional<std::int64_t> vocabulary_;
  std::optional<double> norm_epsilon_;
};

} // namespace cairn::cli
