#include <cairn/text/tokenizer.h>

#include "base/internal/edit_distance.h"
#include "text/files/json_document.h"
#include "text/files/tiktoken_json.h"
#include "text/files/tokenizer_json.h"
#include "text/schemes/bpe/gpt2_tokenizer.h"
#include "text/schemes/char_tokenizer.h"
#include "text/schemes/null_tokenizer.h"
#include "text/schemes/sentencepiece_tokenizer.h"
#include "text/schemes/wordpiece/wordpiece.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string_view>
#include <system_error>
#include <utility>

namespace cairn::text {
namespace {

namespace fs = std::filesystem;

enum class Needs { nothing, vocab, vocab_and_merges, model };

struct Type {
  std::string_view name;
  Needs needs;
  std::shared_ptr<const Tokenizer> (*load)(const TokenizerOptions& options);
};

std::shared_ptr<const Tokenizer> load_bert_lower_case(
    const TokenizerOptions& options) {
  return load_bert_tokenizer(options, true);
}

std::shared_ptr<const Tokenizer> load_bert_case(
    const TokenizerOptions& options) {
  return load_bert_tokenizer(options, false);
}

std::shared_ptr<const Tokenizer> load_hugging_face(
    const TokenizerOptions& options) {
  return load_tokenizer_json(options.model_file, options);
}

constexpr std::array types{
    Type{"GPT2BPETokenizer", Needs::vocab_and_merges, load_gpt2_tokenizer},
    Type{"RobertaTokenizer", Needs::vocab_and_merges, load_roberta_tokenizer},
    Type{"BertWordPieceLowerCase", Needs::vocab, load_bert_lower_case},
    Type{"BertWordPieceCase", Needs::vocab, load_bert_case},
    Type{"HuggingFaceTokenizer", Needs::model, load_hugging_face},
    Type{"HFTokenizer", Needs::model, load_hugging_face},
    Type{"SentencePieceTokenizer", Needs::model, load_sentencepiece_tokenizer},
    Type{
        "GPTSentencePieceTokenizer",
        Needs::model,
        load_sentencepiece_tokenizer},
    Type{"Llama2Tokenizer", Needs::model, load_sentencepiece_tokenizer},
    Type{"TikTokenizer", Needs::model, load_tiktoken},
    Type{"CharTokenizer", Needs::vocab, load_char_tokenizer},
    Type{"NullTokenizer", Needs::nothing, load_null_tokenizer}};

const Type& find_type(std::string_view name) {
  for (const Type& type : types) {
    if (type.name == name) {
      return type;
    }
  }
  std::vector<std::string_view> names;
  for (const Type& type : types) {
    names.push_back(type.name);
  }
  const auto closest = nearest(name, names);
  throw ConfigError(
      {.what = fmt::format("there is no tokenizer type \"{}\"", name),
       .remedy = closest
           ? fmt::format("did you mean {}?", *closest)
           : fmt::format("there are {}", fmt::join(names, ", "))});
}

/// The tokenizer type that the given files imply.
std::string_view detect(const TokenizerOptions& options) {
  const auto cannot = [](std::string what) {
    return ConfigError(
        {.what = std::move(what),
         .remedy = "give --tokenizer-type, or --vocab-file and --merge-file, "
                   "or --tokenizer-model"});
  };
  if (!options.model_file.empty()) {
    if (options.model_file.extension() != ".json") {
      return "SentencePieceTokenizer";
    }
    return JsonDocument(options.model_file).root().is_array()
        ? "TikTokenizer"
        : "HuggingFaceTokenizer";
  }
  if (!options.merge_file.empty()) {
    return "GPT2BPETokenizer";
  }
  const fs::path& vocab = options.vocab_file;
  if (vocab.empty()) {
    if (options.vocab_size > 0) {
      return "NullTokenizer";
    }
    throw cannot("no tokenizer is given");
  }
  if (vocab.extension() == ".json") {
    const JsonDocument document(vocab);
    const auto type = document.root().find("type");
    if (type && type->is_string()) {
      return find_type(type->string("\"type\"")).name;
    }
    throw cannot(
        fmt::format("{} alone does not make a tokenizer", vocab.string()));
  }
  // In a cased vocabulary some token outside brackets has a capital letter.
  const Vocabulary words = read_vocab_txt(vocab);
  if (!words.find("[UNK]")) {
    throw cannot(fmt::format("{} is not a vocabulary of BERT", vocab.string()));
  }
  for (std::size_t id = 0; id < words.size(); ++id) {
    const auto token = words.token(static_cast<TokenId>(id));
    if (!token.starts_with('[') && !token.starts_with('<') &&
        token.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") !=
            std::string_view::npos) {
      return "BertWordPieceCase";
    }
  }
  return "BertWordPieceLowerCase";
}

/// Replaces a Hugging Face folder by the files in it, under their usual names,
/// that the type needs; if the type is unknown, by the first kind of file that
/// is there.
void fill_from_folder(TokenizerOptions& options) {
  std::error_code ignored;
  if (!fs::is_directory(options.model_file, ignored)) {
    return;
  }
  const fs::path folder = options.model_file;
  const auto has = [&](const char* name) {
    return fs::exists(folder / name, ignored);
  };
  const auto wants = [&](Needs needs) {
    return options.type.empty() || find_type(options.type).needs == needs;
  };
  options.model_file.clear();
  if (wants(Needs::model)) {
    const bool pieces =
        options.type.find("SentencePiece") != std::string::npos ||
        options.type == "Llama2Tokenizer";
    for (const char* name :
         {"tokenizer.json", "tokenizer.model", "spiece.model"}) {
      const bool json = std::string_view(name).ends_with(".json");
      const bool fits = options.type.empty() || json != pieces;
      if (fits && has(name)) {
        options.model_file = folder / name;
        return;
      }
    }
  }
  if (wants(Needs::vocab_and_merges) && has("vocab.json") &&
      has("merges.txt")) {
    options.vocab_file = folder / "vocab.json";
    options.merge_file = folder / "merges.txt";
  } else if (wants(Needs::vocab) && has("vocab.txt")) {
    options.vocab_file = folder / "vocab.txt";
  } else {
    throw DataError(
        {.what = "no tokenizer in this folder",
         .where = folder.string(),
         .remedy = "it may have tokenizer.json, tokenizer.model, vocab.json "
                   "with merges.txt, or vocab.txt"});
  }
}

void check_files(const Type& type, const TokenizerOptions& options) {
  const auto require = [&](const fs::path& file, const char* flag) {
    if (file.empty()) {
      throw ConfigError({.what = fmt::format("{} needs {}", type.name, flag)});
    }
  };
  switch (type.needs) {
    case Needs::nothing:
      break;
    case Needs::vocab:
      require(options.vocab_file, "--vocab-file");
      break;
    case Needs::vocab_and_merges:
      require(options.vocab_file, "--vocab-file");
      require(options.merge_file, "--merge-file");
      break;
    case Needs::model:
      require(options.model_file, "--tokenizer-model");
      break;
  }
}

} // namespace

std::vector<std::string> tokenizer_types() {
  std::vector<std::string> names;
  for (const Type& type : types) {
    names.emplace_back(type.name);
  }
  return names;
}

std::shared_ptr<const Tokenizer> load_tokenizer(
    const TokenizerOptions& options) {
  TokenizerOptions complete = options;
  fill_from_folder(complete);
  const Type& type =
      find_type(complete.type.empty() ? detect(complete) : complete.type);
  check_files(type, complete);
  return type.load(complete);
}

} // namespace cairn::text
