#include "text/files/tokenizer_json.h"
#include "text/schemes/bpe/byte_level_bpe.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace cairn::text {
namespace {

using Keep = RegexSplitter::Keep;

void read_normalizer(const JsonValue& root, ByteLevelBpe& scheme) {
  for (const JsonValue& step :
       components(root.find("normalizer"), "normalizers")) {
    using Named = std::pair<std::string_view, NormalizerStep>;
    static constexpr Named known[] = {
        {"NFC", NormalizerStep::nfc},
        {"NFD", NormalizerStep::nfd},
        {"NFKC", NormalizerStep::nfkc},
        {"NFKD", NormalizerStep::nfkd},
        {"Lowercase", NormalizerStep::lowercase},
        {"StripAccents", NormalizerStep::strip_accents}};
    std::optional<NormalizerStep> found;
    for (const auto& [name, value] : known) {
      if (type_of(step) == name) {
        found = value;
      }
    }
    if (!found) {
      step.refuse(
          fmt::format("the normalizer {} is not supported", type_of(step)));
    }
    scheme.normalizer.push_back(*found);
  }
}

std::string escaped(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x80) {
      fmt::format_to(
          std::back_inserter(pattern),
          "\\x{:02x}",
          static_cast<unsigned char>(c));
    } else {
      pattern += c;
    }
  }
  return pattern;
}

void read_split(
    const JsonValue& split,
    const std::filesystem::path& file,
    ByteLevelBpe& scheme) {
  const JsonValue pattern = split.at("pattern");
  const auto regex = pattern.find("Regex");
  const std::string expression = regex
      ? std::string(regex->string("\"Regex\""))
      : escaped(pattern.at("String").string("\"String\""));
  const auto behavior = split.at("behavior").string("\"behavior\"");
  const bool invert = flag(split, "invert", false);
  if (behavior != "Isolated" && behavior != "Removed") {
    split.refuse(
        fmt::format("the Split behavior {} is not supported", behavior));
  }
  // Isolated keeps the matches and the stretches between them, so it makes no
  // difference which of the two `invert` calls the separator.
  const Keep keep = behavior == "Isolated" ? Keep::all
      : invert                             ? Keep::matches
                                           : Keep::gaps;
  scheme.splits.emplace_back(expression, keep, file.string());
}

void read_pre_tokenizer(
    const JsonValue& root,
    const std::filesystem::path& file,
    ByteLevelBpe& scheme) {
  scheme.gpt2_split = false;
  bool byte_level = false;
  for (const JsonValue& step :
       components(root.find("pre_tokenizer"), "pretokenizers")) {
    const auto type = type_of(step);
    if (byte_level) {
      step.refuse(fmt::format(
          "the pre-tokenizer {} after ByteLevel is not "
          "supported",
          type));
    }
    if (type == "ByteLevel") {
      byte_level = true;
      scheme.gpt2_split = flag(step, "use_regex", true);
      scheme.add_prefix_space = flag(step, "add_prefix_space", true);
      if (scheme.add_prefix_space && !scheme.splits.empty()) {
        step.refuse(
            "ByteLevel with add_prefix_space after another pre-tokenizer is "
            "not supported");
      }
    } else if (type == "Split") {
      read_split(step, file, scheme);
    } else if (type == "Digits") {
      const bool each = flag(step, "individual_digits", false);
      scheme.splits.emplace_back(
          each ? R"(\p{N})" : R"(\p{N}+)",
          Keep::all,
          file.string());
    } else {
      step.refuse(
          fmt::format("the pre-tokenizer {} is not supported with BPE", type));
    }
  }
  if (!byte_level) {
    root.refuse(
        "a BPE model without the pre-tokenizer ByteLevel is not supported; "
        "for a SentencePiece model give its .model file");
  }
}

void read_model(
    const JsonValue& model,
    const std::filesystem::path& file,
    ByteLevelBpe& scheme) {
  for (const auto name :
       {"dropout",
        "continuing_subword_prefix",
        "end_of_word_suffix",
        "fuse_unk",
        "byte_fallback"}) {
    expect_unused(model, name);
  }
  scheme.ignore_merges = flag(model, "ignore_merges", false);
  scheme.vocabulary = read_model_vocab(model, file);
  MergeRules rules(scheme.vocabulary, file);
  for (const JsonValue& merge : model.at("merges").array("\"merges\"")) {
    std::string_view left;
    std::string_view right;
    if (merge.is_array()) {
      const auto pair = merge.array("a merge");
      if (pair.size() != 2) {
        merge.refuse("a merge is not two tokens");
      }
      left = pair[0].string("a merge");
      right = pair[1].string("a merge");
    } else {
      const auto both = merge.string("a merge");
      const auto space = both.find(' ');
      if (space == std::string_view::npos) {
        merge.refuse(fmt::format("the merge \"{}\" is not two tokens", both));
      }
      left = both.substr(0, space);
      right = both.substr(space + 1);
    }
    rules.add(left, right, 0);
  }
  scheme.merges = rules.take();
  if (const auto unknown = model.find("unk_token")) {
    const auto token = unknown->string("\"unk_token\"");
    scheme.unknown_byte = scheme.vocabulary.find(token);
  }
}

} // namespace

std::shared_ptr<const Tokenizer> read_bpe_json(
    const JsonValue& root,
    const std::filesystem::path& file,
    const TokenizerOptions& options) {
  ByteLevelBpe scheme;
  read_normalizer(root, scheme);
  read_pre_tokenizer(root, file, scheme);
  read_model(root.at("model"), file, scheme);
  for (const JsonValue& decoder :
       components(root.find("decoder"), "decoders")) {
    if (type_of(decoder) != "ByteLevel") {
      decoder.refuse(fmt::format(
          "the decoder {} is not supported with BPE",
          type_of(decoder)));
    }
  }
  auto frame = read_frame(root, file, options, scheme.vocabulary);
  scheme.added = std::move(frame.added);
  scheme.before = std::move(frame.before);
  scheme.after = std::move(frame.after);
  scheme.special = std::move(frame.special);
  if (options.add_prefix_space) {
    scheme.add_prefix_space = *options.add_prefix_space;
  }
  return make_tokenizer(std::move(scheme));
}

} // namespace cairn::text
