#pragma once

#include <cairn/config/config.h>

#include <optional>
#include <string_view>

namespace cairn::config {

/// What `cairn pretrain` trains.
enum class ModelKind { gpt, bert, t5 };

/// "gpt", "bert" or "t5".
std::string_view name_of(ModelKind kind);
std::optional<ModelKind> model_kind_named(std::string_view name);

/// Throws ConfigError for flags and keys that a model of this kind cannot be
/// trained with. Everything else must have been checked: Config::check.
void check_kind(ModelKind kind, const Config& config);

} // namespace cairn::config
