#pragma once

#include <cairn/text/tokenizer.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn::data {

/// The id as a number; throws ConfigError that names the token when the
/// tokenizer has none.
std::int64_t required_id(
    std::optional<text::TokenId> id,
    std::string_view name,
    std::string_view dataset);

} // namespace cairn::data
