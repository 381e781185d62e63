#include "text/schemes/wordpiece/wordpiece.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <utility>

namespace cairn::text {

std::shared_ptr<const Tokenizer> load_bert_tokenizer(
    const TokenizerOptions& options,
    bool lowercase) {
  WordPiece scheme;
  scheme.vocabulary = read_vocab_txt(options.vocab_file);
  scheme.normalizer =
      BertNormalizerSteps{.strip_accents = lowercase, .lowercase = lowercase};
  scheme.max_word_length = options.max_word_length;
  scheme.never_split = options.never_split;
  const auto id = [&](const std::string& content) {
    const auto found = scheme.vocabulary.find(content);
    if (!found) {
      throw DataError(
          {.what = fmt::format("\"{}\" is missing, which BERT needs", content),
           .where = options.vocab_file.string(),
           .remedy = "a BERT vocabulary has a token a line, with [PAD], "
                     "[UNK], [CLS], [SEP] and [MASK] among them"});
    }
    scheme.added.push_back(
        {.content = content,
         .id = *found,
         .in_text = options.special_tokens_in_text});
    return *found;
  };
  SpecialIds& special = scheme.special;
  special.pad = id("[PAD]");
  special.unknown = scheme.unknown = id("[UNK]");
  special.classify = special.begin = id("[CLS]");
  special.separator = special.end = special.end_of_document = id("[SEP]");
  special.mask = id("[MASK]");
  if (options.add_special_tokens) {
    scheme.before = {*special.classify};
    scheme.after = {*special.separator};
  }
  add_sentinels(
      options.extra_ids.value_or(lowercase ? 0 : 100),
      options.special_tokens_in_text,
      scheme.vocabulary,
      scheme.added,
      special);
  return make_tokenizer(std::move(scheme));
}

} // namespace cairn::text
