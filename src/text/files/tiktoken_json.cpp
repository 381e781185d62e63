#include "text/files/tiktoken_json.h"

#include "text/files/json_document.h"
#include "text/schemes/bpe/byte_alphabet.h"
#include "text/schemes/bpe/byte_level_bpe.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cairn::text {
namespace {

constexpr std::size_t most_ids = std::size_t{1} << 17;
constexpr std::size_t byte_tokens = 256;
/// A limit above the length of any token, and on what a file can cost us.
constexpr std::size_t most_token_bytes = 1 << 12;

constexpr std::array<std::string_view, 7>
    needed_tokens{"<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>", "<sep>"};

// Where words end, as Megatron has it under these names.
constexpr std::string_view pattern_v1 =
    R"([^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view pattern_v2 =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::string_view pattern_named(const std::string& name) {
  if (name != "v1" && name != "v2") {
    throw ConfigError(
        {.what = "no such pattern of words",
         .where = "--tiktoken-pattern",
         .values = name,
         .remedy = "give v1 or v2"});
  }
  return name == "v1" ? pattern_v1 : pattern_v2;
}

/// The names of all special tokens: those that are given, or the usual ones,
/// and a name by number for the rest.
std::vector<std::string> special_tokens(const TokenizerOptions& options) {
  std::vector<std::string> names = options.tiktoken_special_tokens;
  if (names.empty()) {
    names.assign(needed_tokens.begin(), needed_tokens.end());
  }
  for (const std::string_view needed : needed_tokens) {
    if (std::ranges::find(names, needed) == names.end()) {
      throw ConfigError(
          {.what = fmt::format("{} is not among the special tokens", needed),
           .where = "--tiktoken-special-tokens",
           .remedy = fmt::format("name {}", fmt::join(needed_tokens, " "))});
    }
  }
  const std::size_t count = options.tiktoken_special_count;
  if (names.size() > count || count > most_ids) {
    throw ConfigError(
        {.what = "the number of special tokens does not fit",
         .where = "--tiktoken-num-special-tokens",
         .values = fmt::format("{} with {} names", count, names.size()),
         .remedy = fmt::format("give {} to {}", names.size(), most_ids)});
  }
  for (std::size_t id = names.size(); id < count; ++id) {
    names.push_back(fmt::format("<SPECIAL_{}>", id));
  }
  return names;
}

/// The value of a letter of base64; -1: it is none.
int base64_value(char letter) {
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto at = letters.find(letter);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

/// The bytes of a text in base64; empty where it is none.
std::string from_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) {
    return {};
  }
  while (text.ends_with('=') && text.size() % 4 != 2) {
    text.remove_suffix(1);
  }
  std::string result;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char letter : text) {
    const int value = base64_value(letter);
    if (value < 0) {
      return {};
    }
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    held += 6;
    if (held >= 8) {
      held -= 8;
      result.push_back(static_cast<char>(bits >> held & 0xff));
    }
  }
  return result;
}

/// The tokens of the file by rank, as bytes.
std::vector<std::string> read_tokens(
    const JsonValue& root,
    const TokenizerOptions& options) {
  const std::vector<JsonValue> entries = root.array("the vocabulary");
  const std::size_t special = options.tiktoken_special_count;
  const std::size_t ids = options.vocab_size > 0
      ? options.vocab_size
      : std::min(most_ids, special + entries.size());
  if (ids < special + byte_tokens || ids > special + entries.size()) {
    throw ConfigError(
        {.what = "the file does not give so many ids",
         .where = "--vocab-size",
         .values = fmt::format(
             "{} ids, with {} special tokens and {} in {}",
             ids,
             special,
             entries.size(),
             options.model_file.string()),
         .remedy = fmt::format(
             "give {} to {}",
             special + byte_tokens,
             special + entries.size())});
  }
  std::vector<std::string> tokens;
  tokens.reserve(ids - special);
  for (std::size_t rank = 0; rank < ids - special; ++rank) {
    const JsonValue& entry = entries[rank];
    if (entry.at("rank").integer("\"rank\"") !=
        static_cast<std::int64_t>(rank)) {
      entry.refuse(fmt::format("entry {} has another rank", rank));
    }
    tokens.push_back(
        from_base64(entry.at("token_bytes").string("\"token_bytes\"")));
    const std::string& token = tokens.back();
    if (token.empty() || token.size() > most_token_bytes) {
      entry.refuse(fmt::format("the token of rank {} is not in base64", rank));
    }
    if (rank < byte_tokens &&
        (token.size() != 1 || static_cast<unsigned char>(token[0]) != rank)) {
      entry.refuse(fmt::format("the token of rank {} is not that byte", rank));
    }
  }
  return tokens;
}

/// The rules that make each token of any two that it can be cut into.
std::vector<MergeTable::Rule> rules_of(
    const std::vector<std::string>& tokens,
    std::size_t special) {
  std::unordered_map<std::string_view, std::size_t> ranks;
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
    ranks.emplace(tokens[rank], rank);
  }
  const auto id = [&](std::size_t rank) {
    return static_cast<TokenId>(rank + special);
  };
  std::vector<MergeTable::Rule> rules;
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
    const std::string_view token = tokens[rank];
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = ranks.find(token.substr(0, cut));
      const auto right = ranks.find(token.substr(cut));
      if (left != ranks.end() && right != ranks.end()) {
        rules.push_back(
            {id(left->second),
             id(right->second),
             id(rank),
             static_cast<std::int64_t>(rank)});
      }
    }
  }
  return rules;
}

void add_special(
    const std::vector<std::string>& names,
    const TokenizerOptions& options,
    ByteLevelBpe& scheme) {
  const auto id_of = [&](std::string_view name) {
    return static_cast<TokenId>(std::ranges::find(names, name) - names.begin());
  };
  for (std::size_t id = 0; id < names.size(); ++id) {
    scheme.added.push_back(
        {.content = names[id],
         .id = static_cast<TokenId>(id),
         .in_text = options.special_tokens_in_text});
  }
  scheme.special = {
      .unknown = id_of("<unk>"),
      .pad = id_of("<pad>"),
      .begin = id_of("<s>"),
      .end = id_of("</s>"),
      .end_of_document = id_of("</s>"),
      .classify = id_of("<cls>"),
      .separator = id_of("<sep>"),
      .mask = id_of("<mask>"),
      .sentinels = {}};
}

} // namespace

std::shared_ptr<const Tokenizer> load_tiktoken(
    const TokenizerOptions& options) {
  const std::string_view pattern = pattern_named(options.tiktoken_pattern);
  const std::vector<std::string> special = special_tokens(options);
  const JsonDocument document(options.model_file);
  const std::vector<std::string> tokens = read_tokens(document.root(), options);

  const std::string where = options.model_file.string();
  ByteLevelBpe scheme;
  scheme.gpt2_split = false;
  scheme.ignore_merges = true; // a word that is a token is that token
  scheme.splits.emplace_back(pattern, RegexSplitter::Keep::all, where);
  const ByteAlphabet alphabet;
  std::vector<std::string> spelled = special;
  for (const std::string& token : tokens) {
    spelled.push_back(alphabet.write(token));
  }
  std::vector<Vocabulary::Entry> entries;
  for (std::size_t id = 0; id < spelled.size(); ++id) {
    entries.push_back({spelled[id], static_cast<TokenId>(id)});
  }
  scheme.vocabulary = Vocabulary(entries, where);
  scheme.merges = rules_of(tokens, special.size());
  add_special(special, options, scheme);
  return make_tokenizer(std::move(scheme));
}

} // namespace cairn::text
