#include "text/files/tokenizer_json.h"

#include "text/schemes/parts/special_roles.h"

#include <fmt/format.h>

#include <utility>

namespace cairn::text {
namespace {

constexpr int deepest_sequence = 16;
/// Limit on the components, since splitters call each other recursively.
constexpr std::size_t most_components = 64;

void append_components(
    const JsonValue& component,
    std::string_view members,
    int depth,
    std::vector<JsonValue>& all) {
  if (type_of(component) != "Sequence") {
    all.push_back(component);
    return;
  }
  if (depth == deepest_sequence) {
    component.refuse("a Sequence in a Sequence in a Sequence … is refused");
  }
  for (const JsonValue& member : component.at(members).array(members)) {
    append_components(member, members, depth + 1, all);
  }
}

std::vector<AddedToken> read_added_tokens(
    const JsonValue& root,
    const std::filesystem::path& file,
    const TokenizerOptions& options,
    Vocabulary& vocabulary) {
  std::vector<AddedToken> added;
  const auto list = root.find("added_tokens");
  if (!list) {
    return added;
  }
  for (const JsonValue& entry : list->array("\"added_tokens\"")) {
    AddedToken token;
    token.content = entry.at("content").string("an added token");
    token.id = entry.at("id").token_id(token.content);
    token.special = flag(entry, "special", false);
    token.in_text = !token.special || options.special_tokens_in_text;
    token.single_word = flag(entry, "single_word", false);
    token.strip_left = flag(entry, "lstrip", false);
    token.strip_right = flag(entry, "rstrip", false);
    token.normalized = flag(entry, "normalized", !token.special);
    vocabulary.add(token.content, token.id, file.string());
    added.push_back(std::move(token));
  }
  return added;
}

/// Reads ["[SEP]", 102] of BertProcessing and RobertaProcessing.
TokenId processor_token(
    const JsonValue& processor,
    std::string_view name,
    const Vocabulary& vocabulary) {
  const auto pair = processor.at(name).array(name);
  if (pair.size() != 2) {
    processor.refuse(fmt::format("\"{}\" is not a token and its id", name));
  }
  const TokenId id = pair[1].token_id(name);
  vocabulary.token(id); // throws when the id is unknown
  return id;
}

void read_template(
    const JsonValue& processor,
    const Vocabulary& vocabulary,
    TokenizerJsonFrame& frame) {
  bool after_text = false;
  for (const JsonValue& part : processor.at("single").array("\"single\"")) {
    if (part.find("Sequence")) {
      if (after_text) {
        processor.refuse("a template has the text twice");
      }
      after_text = true;
      continue;
    }
    const auto name =
        part.at("SpecialToken").at("id").string("a template's token");
    const JsonValue token = processor.at("special_tokens").at(name);
    for (const JsonValue& value : token.at("ids").array(name)) {
      const TokenId id = value.token_id(name);
      vocabulary.token(id);
      (after_text ? frame.after : frame.before).push_back(id);
    }
  }
  if (!after_text) {
    processor.refuse("a template has no place for the text");
  }
}

void read_post_processor(
    const JsonValue& root,
    const Vocabulary& vocabulary,
    TokenizerJsonFrame& frame) {
  for (const JsonValue& processor :
       components(root.find("post_processor"), "processors")) {
    const auto type = type_of(processor);
    if (type == "BertProcessing" || type == "RobertaProcessing") {
      frame.before.push_back(processor_token(processor, "cls", vocabulary));
      frame.after.push_back(processor_token(processor, "sep", vocabulary));
    } else if (type == "TemplateProcessing") {
      read_template(processor, vocabulary, frame);
    } else if (type != "ByteLevel") { // ByteLevel changes offsets only
      processor.refuse(
          fmt::format("the post-processor {} is not supported", type));
    }
  }
}

} // namespace

std::vector<JsonValue> components(
    const std::optional<JsonValue>& component,
    std::string_view members) {
  std::vector<JsonValue> all;
  if (component) {
    append_components(*component, members, 0, all);
    if (all.size() > most_components) {
      component->refuse(fmt::format(
          "{} \"{}\" are refused: more than {}",
          all.size(),
          members,
          most_components));
    }
  }
  return all;
}

std::string_view type_of(const JsonValue& component) {
  return component.at("type").string("\"type\"");
}

bool flag(const JsonValue& component, std::string_view name, bool otherwise) {
  const auto value = component.find(name);
  return value ? value->boolean(name) : otherwise;
}

void expect_unused(const JsonValue& component, std::string_view name) {
  const auto value = component.find(name);
  if (!value || value->is_falsy()) {
    return;
  }
  component.refuse(fmt::format("\"{}\" is set, which is not supported", name));
}

Vocabulary read_model_vocab(
    const JsonValue& model,
    const std::filesystem::path& file) {
  std::vector<Vocabulary::Entry> entries;
  for (const auto& [token, id] : model.at("vocab").object("\"vocab\"")) {
    entries.push_back({token, id.token_id(token)});
  }
  return Vocabulary(entries, file.string());
}

TokenizerJsonFrame read_frame(
    const JsonValue& root,
    const std::filesystem::path& file,
    const TokenizerOptions& options,
    Vocabulary& vocabulary) {
  TokenizerJsonFrame frame;
  frame.added = read_added_tokens(root, file, options, vocabulary);
  read_post_processor(root, vocabulary, frame);
  if (!options.add_special_tokens) {
    frame.before.clear();
    frame.after.clear();
  }
  frame.special = read_special_roles(file.parent_path(), vocabulary);
  add_sentinels(
      options.extra_ids.value_or(0),
      options.special_tokens_in_text,
      vocabulary,
      frame.added,
      frame.special);
  return frame;
}

std::shared_ptr<const Tokenizer> load_tokenizer_json(
    const std::filesystem::path& file,
    const TokenizerOptions& options) {
  const JsonDocument document(file);
  const JsonValue root = document.root();
  if (!root.is_object() || !root.find("model")) {
    root.refuse("not a tokenizer.json: \"model\" is missing");
  }
  const JsonValue model = root.at("model");
  // Old files do not name the type.
  const auto named = model.find("type");
  const std::string_view type = named          ? named->string("\"type\"")
      : model.find("merges")                   ? "BPE"
      : model.find("max_input_chars_per_word") ? "WordPiece"
                                               : "of unknown type";
  if (type == "BPE") {
    return read_bpe_json(root, file, options);
  }
  if (type == "WordPiece") {
    return read_wordpiece_json(root, file, options);
  }
  model.refuse(fmt::format(
      "the model {} is not supported, only BPE and WordPiece; for a "
      "SentencePiece model give its .model file",
      type));
}

} // namespace cairn::text
