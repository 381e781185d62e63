#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::plan {

// Units of numbers in descriptions, and the largest number that makes sense.
inline constexpr double giga = 1e9;
inline constexpr double tera = 1e12;
inline constexpr double most_number = 1e9;

/// An object of a description whose keys are all asked for. What it throws is
/// a ConfigError that begins with the object's place.
class JsonSection {
 public:
  JsonSection(const nlohmann::json& object, std::string where);

  const nlohmann::json& value(const char* key);
  bool has(const char* key) const { return object_.contains(key); }
  double number(const char* key, double least, double most);
  double number_or(const char* key, double least, double most, double other);
  std::int64_t count(const char* key, std::int64_t least, std::int64_t most);
  bool flag_or(const char* key, bool other);
  std::string text(const char* key);
  JsonSection section(const char* key) { return {value(key), at(key)}; }
  /// The place of a key, for messages.
  std::string at(const char* key) const { return where_ + "." + key; }
  const std::string& where() const { return where_; }

  /// Throws if there is a key that nothing has asked for.
  void refuse_others() const;

 private:
  const nlohmann::json& object_;
  std::string where_;
  std::vector<std::string> known_;
};

} // namespace cairn::plan
