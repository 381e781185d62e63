#pragma once

#include <cairn/config/deepspeed_config.h>
#include "config/binding.h"
#include "config/support.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::config {

struct Alias {
  std::string name;    ///< last part of the path
  std::string warning; ///< empty: just another spelling
};

/// One row of the table of JSON keys. Everything known about a key is here:
/// parser, defaults, `cairn config`, documentation and "did you mean" are all
/// made from these rows.
struct Key {
  enum class Kind {
    value,
    section,
    opaque ///< known by name only; its content is kept but not looked at
  };

  std::string path; ///< "zero_optimization.stage"
  std::string help;
  Kind kind = Kind::value;
  Binding<DeepSpeedConfig> binding;
  Rules rules;
  Support support;
  std::vector<Alias> aliases;
  std::string default_words;         ///< instead of the default value itself
  std::string moved_to;              ///< deprecated in favour of this sibling
  std::vector<std::string> only_for; ///< values of the section's `type`
  bool null_allowed = false; ///< for sections: null is as good as absent
  void (*open)(DeepSpeedConfig&) = nullptr; ///< for optional sections

  std::string_view parent() const;
  std::string_view name() const;

  // For tables that read like prose.
  Key& at_least(double bound);
  Key& above(double bound);
  Key& at_most(double bound);
  Key& one_of(std::vector<std::string> choices);
  Key& also(std::string name, std::string warning = "");
  Key& by_default(std::string words);
  Key& used_by(std::vector<std::string> types);
  Key& refused(std::string reason);
  Key& without_effect(std::string reason);
};

/// The rows of one section, under a common path.
class KeySection {
 public:
  KeySection(std::vector<Key>& table, std::string path)
      : table_(table), path_(std::move(path)) {}
  /// Starts a section with a row of its own.
  KeySection(
      std::vector<Key>& table,
      const std::string& path,
      std::string help);

  template <auto... members>
  Key& key(const std::string& name, std::string help) {
    return add(name, std::move(help), bind<members...>());
  }
  Key& opaque(const std::string& name, std::string help, std::string reason);
  Key& add(
      const std::string& name,
      std::string help,
      Binding<DeepSpeedConfig> binding,
      Key::Kind kind = Key::Kind::value);
  /// Rows of this section follow DeepSpeed's validator for true and false.
  KeySection& validated();
  Key& row(); ///< the section's own row

 private:
  std::vector<Key>& table_;
  std::string path_;
  bool validated_ = false;
};

/// "zero_optimization" and "stage" to "zero_optimization.stage".
std::string join_path(std::string_view parent, std::string_view name);

/// All rows, sections before what is in them. Constant data, built once.
const std::vector<Key>& key_table();
/// The row of a path, by its name or an alias; nullptr when there is none.
const Key* find_key(std::string_view path);
/// Names (and aliases) of what may stand in that section ("" is the top).
std::vector<std::string_view> names_in(std::string_view section);
/// The value of a key that nobody set, also inside sections that are absent.
Json default_value(const Key& key);
/// What `cairn config` prints as the default.
std::string default_text(const Key& key);
/// The type in words, with range and choices.
std::string type_text(const Key& key);

// The parts of the table, one file each.
void add_batch_keys(std::vector<Key>& table);
void add_optimizer_keys(std::vector<Key>& table);
void add_precision_keys(std::vector<Key>& table);
void add_zero_keys(std::vector<Key>& table);
void add_training_keys(std::vector<Key>& table);
void add_monitor_keys(std::vector<Key>& table);
void add_scaling_keys(std::vector<Key>& table);
void add_unsupported_keys(std::vector<Key>& table);

} // namespace cairn::config
