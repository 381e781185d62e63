#include "cli/data/tokenizer_flags.h"

#include "cli/program/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

namespace cairn::cli {
namespace {

const std::string group = "Tokenizer";

} // namespace

void add_tokenizer_flags(CLI::App& app, text::TokenizerOptions& options) {
  app.add_option(
         "--tokenizer-type",
         options.type,
         fmt::format(
             "{}; told from the files when not given",
             fmt::join(text::tokenizer_types(), ", ")))
      ->group(group);
  app.add_option(
         "--vocab-file,--vocab",
         options.vocab_file,
         "vocab.json (BPE) or vocab.txt (WordPiece)")
      ->type_name("FILE")
      ->group(group);
  app.add_option(
         "--merge-file,--merges-file",
         options.merge_file,
         "merges.txt (BPE)")
      ->type_name("FILE")
      ->group(group);
  app.add_option(
         "--tokenizer-model",
         options.model_file,
         "tokenizer.json, a folder that holds one, or a SentencePiece model")
      ->type_name("FILE")
      ->group(group);
  app.add_option(
         "--vocab-size",
         options.vocab_size,
         "NullTokenizer, TikTokenizer: number of ids")
      ->group(group);
  app.add_option(
         "--tiktoken-pattern",
         options.tiktoken_pattern,
         "TikTokenizer: where words end, v1 or v2 (the default)")
      ->check(CLI::IsMember({"v1", "v2"}))
      ->group(group);
  app.add_option(
         "--tiktoken-num-special-tokens",
         options.tiktoken_special_count,
         "TikTokenizer: the first ids, which are special tokens (1000)")
      ->check(at_least(7))
      ->group(group);
  app.add_option(
         "--tiktoken-special-tokens",
         options.tiktoken_special_tokens,
         "TikTokenizer: names of the first special tokens")
      ->group(group);
  app.add_option(
         "--null-tokenizer-eod-id",
         options.null_eod,
         "NullTokenizer: its end of document; the last id when not given")
      ->check(at_least(0))
      ->group(group);
  app.add_option(
         "--null-tokenizer-pad-id",
         options.null_pad,
         "NullTokenizer: its padding; -1, or not given: none")
      ->check(at_least(-1))
      ->group(group);
  app.add_option(
         "--vocab-extra-ids",
         options.extra_ids,
         "sentinels <extra_id_N> to add after the vocabulary (T5)")
      ->check(CLI::Range(0, 1'000'000))
      ->group(group);
  app.add_flag(
         "--tokenizer-hf-include-special-tokens,"
         "!--tokenizer-hf-no-include-special-tokens",
         options.add_special_tokens,
         "put [CLS] and [SEP], or what the tokenizer has for them, around "
         "every "
         "text; on unless --tokenizer-hf-no-include-special-tokens is given")
      ->group(group);
  app.add_flag(
         "--special-tokens-in-text,!--no-special-tokens-in-text",
         options.special_tokens_in_text,
         "<|endoftext|> or [MASK] written in a text becomes its id, as in "
         "Megatron-LM; on unless --no-special-tokens-in-text is given, with "
         "which it is ordinary text, as in Megatron-DeepSpeed")
      ->group(group);
  app.add_flag(
         "--add-prefix-space,!--no-add-prefix-space",
         options.add_prefix_space,
         "byte-level BPE: put a space before a text that starts with none")
      ->group(group);
  app.add_option(
         "--max-word-length",
         options.max_word_length,
         "WordPiece: a word of more characters is unknown (100; 200 as "
         "Google's code in Megatron-DeepSpeed)")
      ->check(CLI::Range(1, 100'000))
      ->group(group);
}

bool any_tokenizer_flag(const CLI::App& app) {
  const auto options = app.get_options([](const CLI::Option* option) {
    return option->get_group() == group && option->count() > 0;
  });
  return !options.empty();
}

} // namespace cairn::cli
