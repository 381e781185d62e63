#pragma once

#include <cairn/data/data_selection.h>
#include <cairn/data/gpt_index.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace cairn::data {

// Descriptions of the data and options of an index, as Megatron writes them:
// keys in its order, text as from Python's json.dumps(…, indent=4). The MD5 of
// the text names the files.

using Description = nlohmann::ordered_json;

/// The description of a GPT index. `tokenizer` is Megatron's own description of
/// its tokenizer, null when unknown: indices do not depend on it. Options that
/// change the arrays although Megatron's text leaves them out are added when
/// they differ from the default, so that no other run takes these files for its
/// own.
Description describe_gpt_index(
    const std::string& prefix,
    Split split,
    const SplitShares& shares,
    const GptIndexRequest& request,
    const Description& tokenizer);

/// The description of a GPT index in Megatron-DeepSpeed's form. `split_text` is
/// all of --split, wherever the data of the split comes from.
std::string describe_gpt_index_for_deepspeed(
    const std::string& prefix,
    Split split,
    std::string_view split_text,
    const GptIndexRequest& request,
    const GptIndexPlan& plan);

/// The description of a blend. If `size` is empty, every sample is taken once
/// and the weights are sample counts.
Description describe_blend(
    std::span<const Description> datasets,
    Split split,
    const std::variant<std::vector<double>, std::vector<std::int64_t>>& weights,
    std::optional<std::int64_t> size);

/// Extracts Megatron's description of a tokenizer from JSON that is one or
/// contains one. Throws ConfigError if there is none.
Description parse_tokenizer_description(std::string_view text);

/// The text as it is stored and hashed.
std::string text_of(const Description& description);
std::string md5_of(std::string_view text);

/// A text that is equal for two descriptions of the same arrays by any writer:
/// the tokenizer is removed. Throws DataError if `text` is no description.
std::string comparable(std::string_view text, const std::string& where);

} // namespace cairn::data
