#pragma once

#include <cairn/config/flags.h>
#include <cairn/text/tokenizer.h>

#include <filesystem>
#include <memory>
#include <optional>

namespace cairn::evaluate {

/// A tokenizer with the tokens that a task's samples are made with.
struct TaskTokenizer {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  text::TokenId classify = 0;  ///< [CLS]
  text::TokenId separator = 0; ///< [SEP]
  text::TokenId pad = 0;
};

/// Opens the tokenizer of the flags; where they name none, the one beside the
/// weights in `folder`. Texts are encoded without special tokens. Throws
/// ConfigError for a tokenizer without [CLS], [SEP] or padding.
TaskTokenizer open_task_tokenizer(
    const config::TokenizerFlags& flags,
    const std::optional<std::filesystem::path>& folder);

} // namespace cairn::evaluate
