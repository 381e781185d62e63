#pragma once

#include <cairn/checkpoint/model_description.h>

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::checkpoints::huggingface {

/// What lies between our tensor and theirs.
enum class Change {
  none,
  transpose,      ///< GPT-2's Conv1D: weights are [in, out]
  join_heads,     ///< query, key and value are tensors of their own there
  reorder_columns ///< one Conv1D with all queries, all keys, all values
};

enum class Only { always, gated, ungated };

struct NameRule {
  std::string_view ours;
  Change change = Change::none;
  std::array<std::string_view, 3> theirs{}; ///< the first of them, or all
  Only only = Only::always;
};

/// Rules for names that begin with this.
struct NamePart {
  std::string_view ours;
  std::string_view theirs;
  std::span<const NameRule> rules;
};

struct FamilyNames {
  /// Left out in files of the model without heads.
  std::string_view base;
  std::span<const NamePart> parts;
  /// Buffers and second names of tied weights, by pattern.
  std::span<const std::string_view> ignored;
};

const FamilyNames& family_names(const ModelDescription& description);

/// One of our parameters and the tensors of theirs that it is made of.
struct NamePair {
  std::string ours;
  Change change = Change::none;
  std::vector<std::string> theirs;
};

/// Throws CheckpointError for a parameter that their model does not have.
NamePair name_pair(
    const ModelDescription& description,
    const std::string& parameter);

/// A name as our rules spell it: with the base that files of headless models
/// leave out, and "weight" for the "gamma" of old files. Empty for what is
/// ignored; the name itself if nothing fits.
std::string rule_name(
    const ModelDescription& description,
    const std::string& name);

} // namespace cairn::checkpoints::huggingface
