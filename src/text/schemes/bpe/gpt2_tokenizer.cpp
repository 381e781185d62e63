#include "text/schemes/bpe/gpt2_tokenizer.h"

#include "text/schemes/bpe/byte_level_bpe.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <utility>

namespace cairn::text {
namespace {

ByteLevelBpe read_files(const TokenizerOptions& options) {
  ByteLevelBpe scheme;
  scheme.vocabulary = read_vocab_json(options.vocab_file);
  scheme.merges = read_merges_txt(options.merge_file, scheme.vocabulary);
  scheme.add_prefix_space = options.add_prefix_space.value_or(false);
  return scheme;
}

} // namespace

std::shared_ptr<const Tokenizer> load_gpt2_tokenizer(
    const TokenizerOptions& options) {
  ByteLevelBpe scheme = read_files(options);
  const std::string content = "<|endoftext|>";
  const TokenId end = scheme.vocabulary.add(content);
  scheme.added.push_back(
      {.content = content,
       .id = end,
       .in_text = options.special_tokens_in_text});
  scheme.special.begin = end;
  scheme.special.end = end;
  scheme.special.end_of_document = end;
  add_sentinels(
      options.extra_ids.value_or(0),
      options.special_tokens_in_text,
      scheme.vocabulary,
      scheme.added,
      scheme.special);
  return make_tokenizer(std::move(scheme));
}

std::shared_ptr<const Tokenizer> load_roberta_tokenizer(
    const TokenizerOptions& options) {
  ByteLevelBpe scheme = read_files(options);
  const auto id = [&](const std::string& content) {
    const auto found = scheme.vocabulary.find(content);
    if (!found) {
      throw DataError(
          {.what = fmt::format(
               "\"{}\" is missing, which RoBERTa's vocabulary has",
               content),
           .where = options.vocab_file.string(),
           .remedy = "for GPT-2's vocabulary use GPT2BPETokenizer"});
    }
    scheme.added.push_back(
        {.content = content,
         .id = *found,
         .in_text = options.special_tokens_in_text});
    return *found;
  };
  SpecialIds& special = scheme.special;
  special.begin = special.classify = id("<s>");
  special.pad = id("<pad>");
  special.end = special.separator = special.end_of_document = id("</s>");
  special.unknown = id("<unk>");
  special.mask = id("<mask>");
  scheme.added.back().strip_left = true; // "a <mask>" leaves no space behind
  if (options.add_special_tokens) {
    scheme.before = {*special.begin};
    scheme.after = {*special.end};
  }
  add_sentinels(
      options.extra_ids.value_or(0),
      options.special_tokens_in_text,
      scheme.vocabulary,
      scheme.added,
      special);
  return make_tokenizer(std::move(scheme));
}

} // namespace cairn::text
