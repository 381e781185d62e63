#pragma once

#include "config/internal/actors.h"
#include "config/table/binding.h"
#include "config/table/setting.h"

#include <cairn/config/deepspeed_config.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::config {

/// A row of the table of JSON keys; its name is the path,
/// "zero_optimization.stage". Everything known about a key is here: parser,
/// defaults, `cairn config`, documentation and "did you mean" are all made from
/// these rows.
struct Key : Setting {
  enum class Kind {
    value,
    section,
    opaque ///< known by name only; its content is kept but not looked at
  };

  Kind kind = Kind::value;
  Binding<DeepSpeedConfig> binding{};
  Actors actors{};
  std::string_view moved_to{}; ///< deprecated in favour of this sibling
  std::string_view only_for{}; ///< values of the section's `type`, words
  bool strict = false; ///< true and false are no numbers, also if `validated`
  // The rest is for sections.
  bool null_allowed = false; ///< null is as good as absent
  bool validated = false;    ///< its keys follow DeepSpeed's validator
  void (*open)(DeepSpeedConfig&) = nullptr; ///< makes an optional section

  /// A key with a value.
  template <typename... Parts>
  constexpr Key(
      std::string_view path,
      Binding<DeepSpeedConfig> member,
      Actors acting,
      std::string_view help_text,
      Parts... parts)
      : Setting{.name = path, .help = help_text},
        binding(member),
        actors(acting) {
    (parts(*this), ...);
  }
  /// A section, or a key that is known by name only.
  template <typename... Parts>
  constexpr Key(
      std::string_view path,
      Kind what,
      std::string_view help_text,
      Parts... parts)
      : Setting{.name = path, .help = help_text}, kind(what) {
    (parts(*this), ...);
  }

  std::string_view parent() const;
  std::string_view last_name() const;
};

// Parts of a row, beside those in setting.h.

constexpr auto moved_to(std::string_view sibling) {
  return [sibling](Key& row) { row.moved_to = sibling; };
}
constexpr auto only_for(std::string_view types) {
  return [types](Key& row) { row.only_for = types; };
}
/// The actors of a key that is known by name only, but not ignored.
constexpr auto acted_on_by(Actors actors) {
  return [actors](Key& row) { row.actors = actors; };
}
constexpr auto null_allowed() {
  return [](Key& row) { row.null_allowed = true; };
}
constexpr auto validated() {
  return [](Key& row) { row.validated = true; };
}
constexpr auto strict() {
  return [](Key& row) { row.strict = true; };
}
constexpr auto opened_by(void (*open)(DeepSpeedConfig&)) {
  return [open](Key& row) { row.open = open; };
}

/// "zero_optimization" and "stage" to "zero_optimization.stage".
std::string join_path(std::string_view parent, std::string_view name);

/// The rows as they are written; others read key_table().
std::span<const Key> key_rows();
/// All rows; a section comes before its content.
const std::vector<Key>& key_table();
/// The row of a path, by its name or an alias; nullptr when there is none.
const Key* find_key(std::string_view path);
/// Names (and aliases) that may stand in that section ("" is the top).
std::vector<std::string_view> names_in(std::string_view section);
/// The value of a key that nobody set, also inside sections that are absent.
Json default_value(const Key& key);
/// The default as `cairn config` prints it.
std::string default_text(const Key& key);
/// The type in words, with range and choices.
std::string type_text(const Key& key);

} // namespace cairn::config
