#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/jsonl_name.h"
#include "cli/tokenizer_flags.h"
#include "corpus/output_file.h"

#include <cairn/base/error.h>
#include <cairn/data/json_line.h>
#include <cairn/data/line_reader.h>
#include <cairn/text/decode_text.h>
#include <cairn/text/load_tokenizer.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace cairn::cli {
namespace {

using text::TokenId;

struct TokenizeOptions {
  text::TokenizerOptions tokenizer;
  std::string input = "-";
  std::string output = "-";
  std::string format; ///< lines or jsonl; empty: told from the names
  std::string json_key = "text";
  bool decode = false;
  bool skip_special = false;
};

bool is_jsonl(const TokenizeOptions& options) {
  if (!options.format.empty()) {
    return options.format == "jsonl";
  }
  return is_jsonl_name(options.input == "-" ? options.output : options.input);
}

/// Standard output, or a file that appears when all is done.
class Output {
 public:
  explicit Output(const std::string& path) : file_(path) {}

  std::string& buffer() { return buffer_; }

  void flush_if_full() {
    if (buffer_.size() >= flush_size) {
      flush();
    }
  }

  void finish() {
    flush();
    file_.commit();
  }

 private:
  static constexpr std::size_t flush_size = 1 << 16;

  void flush() {
    file_.write(buffer_);
    buffer_.clear();
  }

  corpus::OutputFile file_;
  std::string buffer_;
};

void append_ids(
    std::span<const TokenId> ids,
    std::string_view separator,
    std::string& out) {
  bool first = true;
  for (const TokenId id : ids) {
    out += first ? std::string_view() : separator;
    const fmt::format_int digits(id);
    out.append(digits.data(), digits.size());
    first = false;
  }
}

class LineEncoder {
 public:
  LineEncoder(const text::Tokenizer& tokenizer, const TokenizeOptions& options)
      : encoder_(tokenizer.make_encoder()), parser_({options.json_key}) {}

  void encode_line(std::string_view line, std::string& out) {
    ids_.clear();
    encoder_->encode(line, ids_);
    append_ids(ids_, " ", out);
    out += '\n';
  }

  /// {"ids": […]}, or a list of lists where the text is a list of strings.
  void encode_json(std::string_view line, std::string& out) {
    line_.assign(line);
    line_.append(data::LineBlock::padding, '\0'); // the parser may read it
    parser_.parse(std::span(line_).first(line.size()));
    const auto& text = parser_.texts().front();
    out += text.is_list ? R"({"ids": [)" : R"({"ids": )";
    bool first = true;
    for (const std::string_view part : text.parts) {
      ids_.clear();
      encoder_->encode(part, ids_);
      out += first ? "[" : ", [";
      append_ids(ids_, ", ", out);
      out += ']';
      first = false;
    }
    out += text.is_list ? "]}\n" : "}\n";
  }

 private:
  std::unique_ptr<text::Encoder> encoder_;
  data::JsonLineParser parser_;
  std::string line_;
  std::vector<TokenId> ids_;
};

class LineDecoder {
 public:
  LineDecoder(const text::Tokenizer& tokenizer, const TokenizeOptions& options)
      : tokenizer_(tokenizer), options_(options) {}

  void decode_line(std::string_view line, std::string& out) {
    ids_.clear();
    constexpr std::string_view spaces = " \t,";
    for (auto at = line.find_first_not_of(spaces);
         at != std::string_view::npos;) {
      const auto end = std::min(line.find_first_of(spaces, at), line.size());
      ids_.push_back(read_id(line.substr(at, end - at)));
      at = line.find_first_not_of(spaces, end);
    }
    out += decoded();
    out += '\n';
  }

  void decode_json(std::string_view line, std::string& out) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    const auto ids = json.is_object() ? json.find("ids") : json.end();
    if (ids == json.end() || !ids->is_array()) {
      throw DataError(
          {.what =
               R"(a line must be an object with "ids", a list of numbers)"});
    }
    ids_.clear();
    for (const auto& id : *ids) {
      const auto value = id.is_number_integer() ? id.get<std::int64_t>() : -1;
      if (value < 0 || value > std::numeric_limits<TokenId>::max()) {
        throw DataError({.what = fmt::format("{} is not an id", id.dump())});
      }
      ids_.push_back(static_cast<TokenId>(value));
    }
    nlohmann::json result;
    result[options_.json_key] = decoded();
    // Bytes that are no UTF-8 cannot be in JSON: U+FFFD stands for them.
    out +=
        result.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    out += '\n';
  }

 private:
  static TokenId read_id(std::string_view word) {
    TokenId id = 0;
    const char* end = word.data() + word.size();
    const auto [rest, error] = std::from_chars(word.data(), end, id);
    if (error != std::errc() || rest != end) {
      throw DataError(
          {.what = fmt::format("\"{}\" is not an id", word.substr(0, 40))});
    }
    return id;
  }

  std::string decoded() {
    return tokenizer_.decode(
        options_.skip_special ? text::without_special(tokenizer_, ids_) : ids_);
  }

  const text::Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
  std::vector<TokenId> ids_;
};

template <class Work>
void for_each_line(const std::string& input, Output& output, Work&& work) {
  data::LineReader lines(input);
  while (const auto line = lines.next()) {
    try {
      work(*line, output.buffer());
    } catch (const DataError& error) {
      Problem problem = error.problem();
      if (problem.where.empty()) {
        problem.where = lines.where();
      }
      throw DataError(std::move(problem));
    }
    output.flush_if_full();
  }
  output.finish();
}

} // namespace

int run_tokenize(const Arguments& arguments) {
  TokenizeOptions options;
  CommandLine line(
      "cairn tokenize [FLAGS…] < TEXT > IDS",
      "echo 'Hello world' | cairn tokenize --vocab-file vocab.json "
      "--merge-file merges.txt\n"
      "  15496 995\n\n"
      "  cairn tokenize --tokenizer-model tokenizer.json --input corpus.jsonl "
      "--output ids.jsonl");
  CLI::App& app = line.app();
  app.add_option(
         "--input",
         options.input,
         "plain or packed (.gz .zst .xz .bz2); standard input when not given")
      ->type_name("FILE");
  app.add_option(
         "--output",
         options.output,
         "appears when all is done; standard output when not given")
      ->type_name("FILE");
  app.add_option(
         "--format",
         options.format,
         "lines: a text a line, its ids with spaces between; jsonl: "
         "{\"text\": …} a line gives {\"ids\": […]}. Told from the file names "
         "when not given")
      ->check(CLI::IsMember({"lines", "jsonl"}))
      ->type_name("TEXT");
  const CLI::Option* const json_key = app.add_option(
      "--json-key,--json-keys",
      options.json_key,
      "where JSONL has its text (default text)");
  app.add_flag("--decode", options.decode, "from ids to text");
  app.add_flag(
      "--skip-special-tokens",
      options.skip_special,
      "with --decode: leave special tokens out");
  add_tokenizer_flags(app, options.tokenizer);
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  if (options.skip_special && !options.decode) {
    throw ConfigError(
        {.what = "--skip-special-tokens belongs to --decode",
         .remedy = "to encode without [CLS] and [SEP] around texts give "
                   "--tokenizer-hf-no-include-special-tokens"});
  }
  const bool jsonl = is_jsonl(options);
  if (json_key->count() > 0 && !jsonl) {
    throw ConfigError(
        {.what = "--json-key is for JSONL, and this is plain text",
         .remedy = "add --format jsonl if it is not"});
  }
  const auto tokenizer = text::load_tokenizer(options.tokenizer);
  Output output(options.output);
  if (options.decode) {
    LineDecoder decoder(*tokenizer, options);
    for_each_line(
        options.input,
        output,
        [&](std::string_view text, std::string& out) {
          jsonl ? decoder.decode_json(text, out)
                : decoder.decode_line(text, out);
        });
  } else {
    LineEncoder encoder(*tokenizer, options);
    for_each_line(
        options.input,
        output,
        [&](std::string_view text, std::string& out) {
          jsonl ? encoder.encode_json(text, out)
                : encoder.encode_line(text, out);
        });
  }
  return exit_ok;
}

} // namespace cairn::cli
