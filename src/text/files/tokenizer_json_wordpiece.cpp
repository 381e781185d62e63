#include "text/files/tokenizer_json.h"
#include "text/schemes/wordpiece/wordpiece.h"

#include <fmt/format.h>

#include <utility>

namespace cairn::text {
namespace {

void read_normalizer(const JsonValue& root, WordPiece& scheme) {
  for (const JsonValue& step :
       components(root.find("normalizer"), "normalizers")) {
    if (type_of(step) != "BertNormalizer" || scheme.normalizer) {
      step.refuse(fmt::format(
          "the normalizer {} is not supported with WordPiece",
          type_of(step)));
    }
    const bool lowercase = flag(step, "lowercase", true);
    scheme.normalizer = BertNormalizerSteps{
        .clean_text = flag(step, "clean_text", true),
        .chinese_chars = flag(step, "handle_chinese_chars", true),
        .strip_accents = flag(step, "strip_accents", lowercase),
        .lowercase = lowercase};
  }
}

void read_pre_tokenizer(const JsonValue& root) {
  const auto steps = components(root.find("pre_tokenizer"), "pretokenizers");
  if (steps.size() != 1 || type_of(steps.front()) != "BertPreTokenizer") {
    root.refuse(fmt::format(
        "the pre-tokenizer {} is not supported with WordPiece, only "
        "BertPreTokenizer",
        steps.empty() ? "null" : type_of(steps.front())));
  }
}

} // namespace

std::shared_ptr<const Tokenizer> read_wordpiece_json(
    const JsonValue& root,
    const std::filesystem::path& file,
    const TokenizerOptions& options) {
  WordPiece scheme;
  read_normalizer(root, scheme);
  read_pre_tokenizer(root);
  const JsonValue model = root.at("model");
  scheme.vocabulary = read_model_vocab(model, file);
  scheme.continuing_prefix = model.at("continuing_subword_prefix")
                                 .string("\"continuing_subword_prefix\"");
  if (const auto length = model.find("max_input_chars_per_word")) {
    scheme.max_word_length =
        static_cast<std::size_t>(length->token_id("max_input_chars_per_word"));
  }
  for (const JsonValue& decoder :
       components(root.find("decoder"), "decoders")) {
    if (type_of(decoder) != "WordPiece") {
      decoder.refuse(fmt::format(
          "the decoder {} is not supported with WordPiece",
          type_of(decoder)));
    }
    scheme.clean_up = flag(decoder, "cleanup", true);
  }
  auto frame = read_frame(root, file, options, scheme.vocabulary);
  const auto unknown = model.at("unk_token").string("\"unk_token\"");
  const auto id = scheme.vocabulary.find(unknown);
  if (!id) {
    model.refuse(fmt::format(
        "the unknown token \"{}\" is not in the vocabulary",
        unknown));
  }
  for (const AddedToken& token : frame.added) {
    if (token.normalized && scheme.normalizer) {
      root.refuse(fmt::format(
          "the added token \"{}\" is looked for after normalization, "
          "which is not supported with WordPiece",
          token.content));
    }
  }
  scheme.unknown = *id;
  scheme.added = std::move(frame.added);
  scheme.before = std::move(frame.before);
  scheme.after = std::move(frame.after);
  scheme.special = std::move(frame.special);
  scheme.never_split = options.never_split;
  return make_tokenizer(std::move(scheme));
}

} // namespace cairn::text
