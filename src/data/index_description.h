#pragma once

#include <cairn/data/blend.h>
#include <cairn/data/gpt_index.h>
#include <cairn/data/split.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace cairn::data {

// What an index file was made from, as Megatron writes it down: the keys in
// its order, the text as Python's json.dumps(…, indent=4) has it. The MD5 of
// the text names the files.

using Description = nlohmann::ordered_json;

/// `tokenizer` is Megatron's own account of its tokenizer, null when unknown:
/// indices do not depend on it. Options that Megatron's text leaves out,
/// although the arrays depend on them, are added where they are not the default
/// ones, so that no other run takes these files for its own.
Description describe_gpt_index(
    const std::string& prefix,
    Split split,
    const SplitShares& shares,
    const GptIndexRequest& request,
    const Description& tokenizer);

/// The same in Megatron-DeepSpeed's words. `split_text` is all of --split,
/// whatever data the split comes from.
std::string describe_gpt_index_for_deepspeed(
    const std::string& prefix,
    Split split,
    std::string_view split_text,
    const GptIndexRequest& request,
    const GptIndexPlan& plan);

/// `size` is none when every sample is taken once; the weights are sample
/// counts then.
Description describe_blend(
    std::span<const Description> datasets,
    Split split,
    const std::variant<std::vector<double>, std::vector<std::int64_t>>& weights,
    std::optional<std::int64_t> size);

/// Megatron's account of a tokenizer, from JSON that is it or has it. Throws
/// ConfigError for what is none.
Description parse_tokenizer_description(std::string_view text);

/// As it is stored and hashed.
std::string text_of(const Description& description);
std::string md5_of(std::string_view text);

/// Two texts with the same result stand for the same arrays, whoever wrote
/// them: the tokenizer is left out. Throws DataError for what is no
/// description.
std::string comparable(std::string_view text, const std::string& where);

} // namespace cairn::data
