#pragma once

#include <optional>
#include <string_view>

namespace cairn::model {

/// Architecture as published, which decides on the checkpoints' names.
enum class ModelFamily { gpt2, llama, bert, roberta, t5 };

/// The task of a model, which `cairn pretrain` trains: predict the next token
/// (gpt), fill in masked ones (bert), or turn one text into another (t5).
enum class ModelKind { gpt, bert, t5 };

ModelKind kind_of(ModelFamily family);

/// "gpt2", "llama", …
std::string_view name_of(ModelFamily family);
/// "gpt", "bert" or "t5".
std::string_view name_of(ModelKind kind);
std::optional<ModelKind> model_kind_named(std::string_view name);

} // namespace cairn::model
