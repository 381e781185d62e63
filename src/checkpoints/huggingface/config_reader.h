#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::checkpoints::huggingface {

/// Reads a config.json. A key that is missing or null has transformers'
/// default; a value of the wrong kind is a CheckpointError.
class ConfigReader {
 public:
  ConfigReader(std::string_view text, std::string where);

  std::optional<std::int64_t> find_integer(const char* key) const;
  std::int64_t integer(const char* key, std::int64_t otherwise) const;
  double real(const char* key, double otherwise) const;
  /// A list of numbers; empty if it is missing.
  std::vector<double> reals(const char* key) const;
  bool has(const char* key) const { return find(key) != nullptr; }
  bool boolean(const char* key, bool otherwise) const;
  std::string text(const char* key, std::string otherwise) const;
  std::optional<ConfigReader> find_object(const char* key) const;

  /// Refuses any other value of a key that changes what the model computes.
  void require(const char* key, bool value) const;

  [[noreturn]] void refuse(std::string what, std::string values) const;

 private:
  ConfigReader(nlohmann::json object, std::string where);
  const nlohmann::json* find(const char* key) const;

  nlohmann::json object_;
  std::string where_;
};

} // namespace cairn::checkpoints::huggingface
