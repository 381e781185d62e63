#pragma once

#include "config/internal/actors.h"
#include "config/table/binding.h"
#include "config/table/setting.h"

#include <cairn/config/flags.h>

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::config {

/// The number of values that follow a flag.
struct Arity {
  std::size_t least = 1;
  std::size_t most = 1;
};

/// A row of the table of flags; everything known about a flag is here. In names
/// '-' and '_' are the same, so `--top-p` and `--top_p` need one row.
struct Flag : Setting {
  Binding<Flags> binding;
  Actors actors;
  Arity arity{};
  bool switched_to = true; ///< the value that a flag without value sets
  std::string_view json{}; ///< path of the key that means the same, if any
  std::string_view group{};

  template <typename... Parts>
  constexpr Flag(
      std::string_view flag_name,
      Binding<Flags> member,
      Actors acting,
      std::string_view help_text,
      Parts... parts)
      : Setting{.name = flag_name, .help = help_text},
        binding(member),
        actors(acting) {
    if (member.flag) {
      arity = {0, 0};
    } else if (member.list) {
      arity = {1, std::numeric_limits<std::size_t>::max()};
    }
    (parts(*this), ...);
  }
};

// Parts of a row, beside those in setting.h.

/// The JSON key that means the same.
constexpr auto same_as(std::string_view path) {
  return [path](Flag& row) { row.json = path; };
}
constexpr auto values(std::size_t count) {
  return [count](Flag& row) { row.arity = {count, count}; };
}
/// A switch that turns something off.
constexpr auto turns_off() {
  return [](Flag& row) { row.switched_to = false; };
}

/// The rows of one group of `--help`.
struct FlagGroup {
  std::string_view title;
  std::span<const Flag> flags;
};

/// Flags of Megatron's, or of our own launcher, that are refused by name for
/// one reason.
struct RefusedFlags {
  std::string_view reason;
  std::string_view names; ///< words, without "--"
  bool launcher = false;  ///< a flag of our own launcher, not of Megatron's

  /// The answer to someone who gave one.
  std::string text() const;
};

/// Flags of Megatron's that have no effect, for one reason: they change no
/// result, or ask for what is done anyway.
struct TakenFlags {
  std::string_view reason;
  Arity arity;
  std::string_view names; ///< words, without "--"
  /// The values that are taken; empty: any.
  std::string_view choices{};
  /// Why other values are refused; empty: they are not Megatron's.
  std::string_view otherwise{};
};

/// A flag of Megatron's that says in other words what flags of ours say. A flag
/// with several values has a row for each.
struct OtherWords {
  std::string_view name;  ///< without "--"
  std::string_view value; ///< empty: the flag has none; "*": any, kept
  std::string_view means; ///< such as "--zero-stage 3"
};

/// All groups, in the order of `--help`.
std::span<const FlagGroup> flag_groups();
/// All rows, group by group.
const std::vector<Flag>& flag_table();
/// The flag of that name or alias ("--lr"; '_' counts as '-'); nullptr when
/// there is none.
const Flag* find_flag(std::string_view name);
/// Every name and alias, and those of Megatron's flags that are taken without
/// an effect, for "did you mean".
std::vector<std::string_view> flag_names();
/// The reason why a flag that Megatron knows is not there; nullptr when
/// unknown.
const RefusedFlags* find_refused_flag(std::string_view name);
std::span<const RefusedFlags> refused_flags();
/// The flag of Megatron's that is taken without effect; nullptr when there is
/// none.
const TakenFlags* find_taken_flag(std::string_view name);
std::span<const TakenFlags> taken_flags();
/// The rows of a flag that says something in other words; none of another flag.
std::vector<OtherWords> find_other_words(std::string_view name);
std::span<const OtherWords> other_words();

std::string default_text(const Flag& flag);
/// The word that stands for the flag's value in help: "N", "NUMBER…",
/// "{adam,sgd}"; empty for a flag without a value.
std::string value_text(const Flag& flag);
/// The type in words, with range and choices.
std::string type_text(const Flag& flag);

} // namespace cairn::config
