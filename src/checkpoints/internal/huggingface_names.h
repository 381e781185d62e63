#pragma once

#include <cairn/model/description.h>

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::checkpoints::huggingface {

/// Difference between our tensor and theirs.
enum class Change {
  none,
  transpose,       ///< GPT-2's Conv1D: weights are [in, out]
  join_heads,      ///< they keep query, key and value as separate tensors
  reorder_columns, ///< a Conv1D of all queries, all keys, all values
  stack_experts    ///< they keep each expert's weight as a tensor of its own
};

enum class Only { always, gated, ungated };

struct NameRule {
  std::string_view ours;
  Change change = Change::none;
  /// Names of the tensors: one, or three for join_heads. For stack_experts "@"
  /// stands for the expert's number.
  std::array<std::string_view, 3> theirs{};
  Only only = Only::always;
};

/// Rules for the names that begin with `ours` here and with `theirs` there.
struct NamePart {
  std::string_view ours;
  std::string_view theirs;
  std::span<const NameRule> rules;
};

struct FamilyNames {
  /// Prefix that files of the model without heads leave out.
  std::string_view base;
  std::span<const NamePart> parts;
  /// Patterns of buffers and of second names of tied weights.
  std::span<const std::string_view> ignored;
};

const FamilyNames& family_names(const model::ModelDescription& description);

/// A parameter of ours and the tensors of theirs that it is made of.
struct NamePair {
  std::string ours;
  Change change = Change::none;
  std::vector<std::string> theirs;
};

/// Their names for one of our parameters. Throws CheckpointError for a
/// parameter that their model does not have.
NamePair name_pair(
    const model::ModelDescription& description,
    const std::string& parameter);

/// A name as our rules spell it: with the base that files of headless models
/// leave out, and "weight" for the "gamma" of old files. Empty for an ignored
/// tensor; the name itself if nothing fits.
std::string rule_name(
    const model::ModelDescription& description,
    const std::string& name);

} // namespace cairn::checkpoints::huggingface
