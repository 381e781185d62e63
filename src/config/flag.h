#pragma once

#include <cairn/config/flags.h>
#include "config/binding.h"
#include "config/support.h"

#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::config {

/// How many values follow a flag.
struct Arity {
  std::size_t least = 1;
  std::size_t most = 1;
};

struct FlagAlias {
  std::string name;
  std::string warning; ///< empty: just another spelling
};

/// One row of the table of flags; everything known about a flag is here. In
/// names '-' and '_' are the same, so `--top-p` and `--top_p` need one row.
struct Flag {
  std::string name;
  std::string group;
  std::string help;
  Binding<Flags> binding;
  Rules rules;
  Arity arity;
  bool switched_to = true; ///< what a flag without value sets
  std::string json;        ///< path of the key that means the same, if any
  std::vector<FlagAlias> aliases;
  std::string default_words;
  Support support;

  Flag& at_least(double bound);
  Flag& above(double bound);
  Flag& at_most(double bound);
  Flag& one_of(std::vector<std::string> choices);
  Flag& also(std::string name, std::string warning = "");
  Flag& by_default(std::string words);
  Flag& same_as(std::string json_path);
  Flag& values(std::size_t least, std::size_t most);
  Flag& without_effect(std::string reason);
};

/// The rows of one group of `--help`.
class FlagGroup {
 public:
  FlagGroup(std::vector<Flag>& table, std::string title)
      : table_(table), title_(std::move(title)) {}

  template <auto... members>
  Flag& flag(std::string name, std::string help) {
    return add(std::move(name), std::move(help), bind<members...>());
  }
  /// A switch that turns something off.
  template <auto... members>
  Flag& off(std::string name, std::string help) {
    Flag& row = flag<members...>(std::move(name), std::move(help));
    row.switched_to = false;
    return row;
  }

 private:
  Flag& add(std::string name, std::string help, Binding<Flags> binding);

  std::vector<Flag>& table_;
  std::string title_;
};

/// Flags of Megatron's, or of our own launcher, that are refused by name.
struct RefusedFlags {
  std::string_view reason;
  std::string_view names; ///< separated by spaces, without "--"
  bool launcher = false;  ///< of our own launcher rather than Megatron's

  /// What to say to someone who gave one.
  std::string text() const;
};

/// All rows, group by group. Constant data, built once.
const std::vector<Flag>& flag_table();
/// The groups in the order of `--help`.
std::vector<std::string> flag_groups();
/// By name or alias ("--lr"; '_' counts as '-'); nullptr when there is none.
const Flag* find_flag(std::string_view name);
/// Every name and alias, for "did you mean".
std::vector<std::string_view> flag_names();
/// Why a flag that Megatron knows is not there; nullptr when unknown.
const RefusedFlags* find_refused_flag(std::string_view name);
const std::vector<RefusedFlags>& refused_flags();

std::string default_text(const Flag& flag);
/// What follows the flag in help: "N", "NUMBER…", "{adam,sgd}", "".
std::string value_text(const Flag& flag);
/// The type in words, with range and choices.
std::string type_text(const Flag& flag);

// The parts of the table, one file each.
void add_model_flags(std::vector<Flag>& table);
void add_training_flags(std::vector<Flag>& table);
void add_distributed_flags(std::vector<Flag>& table);
void add_data_flags(std::vector<Flag>& table);
void add_run_flags(std::vector<Flag>& table);

} // namespace cairn::config
