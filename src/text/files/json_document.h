#pragma once

#include <cairn/text/tokenizer.h>

#include <simdjson.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::text {

/// A value of a JSON file. Accessors throw DataError with the file's name and
/// the expected type.
class JsonValue {
 public:
  JsonValue(simdjson::dom::element element, const std::string& file)
      : element_(element), file_(&file) {}

  using Members = std::vector<std::pair<std::string_view, JsonValue>>;
  Members object(std::string_view what) const; ///< in the order of the file
  std::vector<JsonValue> array(std::string_view what) const;
  std::string_view string(std::string_view what) const;
  bool boolean(std::string_view what) const;
  std::int64_t integer(std::string_view what) const;
  TokenId token_id(std::string_view token) const;

  bool is_falsy() const; ///< null, false, 0 or an empty string
  bool is_string() const { return element_.is_string(); }
  bool is_object() const { return element_.is_object(); }
  bool is_array() const { return element_.is_array(); }

  /// The member called `name`; empty when it is missing or null.
  std::optional<JsonValue> find(std::string_view name) const;
  /// The member called `name`; throws when it is missing or null.
  JsonValue at(std::string_view name) const;

  [[noreturn]] void refuse(std::string what) const;

 private:
  simdjson::dom::element element_;
  const std::string* file_; ///< for messages; lives as long as the document
};

/// A JSON file in memory.
class JsonDocument {
 public:
  /// Parses the file. Throws DataError with the line where it is broken.
  explicit JsonDocument(const std::filesystem::path& file);
  /// Parses a text; `name` stands for the file in messages.
  JsonDocument(const std::string& text, std::string name);

  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  JsonValue root() const { return {root_, name_}; }

 private:
  std::string name_;
  simdjson::dom::parser parser_;
  simdjson::dom::element root_;
};

} // namespace cairn::text
