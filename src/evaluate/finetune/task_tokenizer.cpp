#include "evaluate/finetune/task_tokenizer.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <array>
#include <string>
#include <system_error>
#include <utility>

namespace cairn::evaluate {
namespace {

namespace fs = std::filesystem;

constexpr std::array files_beside_weights{"tokenizer.json", "vocab.txt"};

/// The tokenizer's file beside the weights.
std::optional<fs::path> file_in(const std::optional<fs::path>& folder) {
  for (const char* name : files_beside_weights) {
    std::error_code error;
    if (folder && fs::is_regular_file(*folder / name, error)) {
      return *folder / name;
    }
  }
  return std::nullopt;
}

text::TokenizerOptions options_of(
    const config::TokenizerFlags& flags,
    const std::optional<fs::path>& folder) {
  text::TokenizerOptions options{
      .type = flags.type.value_or(""),
      .vocab_file = flags.vocab_file.value_or(""),
      .merge_file = flags.merge_file.value_or(""),
      .model_file = flags.model.value_or(""),
      .vocab_size = static_cast<std::size_t>(flags.vocab_size.value_or(0)),
      .tiktoken_pattern = flags.tiktoken_pattern,
      .tiktoken_special_count =
          static_cast<std::size_t>(flags.tiktoken_num_special_tokens),
      .tiktoken_special_tokens = flags.tiktoken_special_tokens,
      .add_special_tokens = false};
  if (flags.vocab_extra_ids > 0) {
    options.extra_ids = static_cast<int>(flags.vocab_extra_ids);
  }
  if (flags.vocab_file || flags.merge_file || flags.model) {
    return options;
  }
  const auto file = file_in(folder);
  if (!file) {
    throw ConfigError(
        {.what = "no tokenizer is named, and none lies beside the weights",
         .where = "--vocab-file",
         .remedy = "name the one that the model was trained with, as in "
                   "--tokenizer-type BertWordPieceLowerCase --vocab-file "
                   "bert-vocab.txt"});
  }
  (file->extension() == ".json" ? options.model_file : options.vocab_file) =
      *file;
  return options;
}

text::TokenId required(
    const std::optional<text::TokenId>& id,
    const char* name) {
  if (!id) {
    throw ConfigError(
        {.what = "the tokenizer lacks a token that BERT's samples have",
         .where = "--tokenizer-type",
         .values = name,
         .remedy = "use the WordPiece tokenizer that the model was trained "
                   "with"});
  }
  return *id;
}

} // namespace

TaskTokenizer open_task_tokenizer(
    const config::TokenizerFlags& flags,
    const std::optional<fs::path>& folder) {
  auto tokenizer = text::load_tokenizer(options_of(flags, folder));
  const text::SpecialIds& special = tokenizer->special();
  const text::TokenId classify = required(special.classify, "[CLS]");
  const text::TokenId separator = required(special.separator, "[SEP]");
  const text::TokenId pad = required(special.pad, "[PAD]");
  return {std::move(tokenizer), classify, separator, pad};
}

} // namespace cairn::evaluate
