#include "cli/data/jsonl_name.h"
#include "cli/data/tokenizer_flags.h"
#include "cli/program/command.h"
#include "cli/program/command_line.h"
#include "corpus/internal/output_file.h"
#include "data/internal/json_line.h"
#include "data/internal/line_reader.h"
#include "text/internal/decode_text.h"

#include <cairn/base/error.h>
#include <cairn/text/tokenizer.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace cairn::cli {
namespace {

using text::TokenId;

struct TokenizeOptions {
  text::TokenizerOptions tokenizer;
  std::string input = "-";
  std::string output = "-";
  std::string format; ///< lines or jsonl; empty: told from names or content
  std::string json_key = "text";
  bool decode = false;
  bool skip_special = false;
};

/// True for JSONL; unset if only the content can tell.
std::optional<bool> is_jsonl(const TokenizeOptions& options) {
  if (!options.format.empty()) {
    return options.format == "jsonl";
  }
  if (options.input != "-") {
    return is_jsonl_name(options.input);
  }
  return is_jsonl_name(options.output) ? std::optional(true) : std::nullopt;
}

/// True when the first line is a JSON object, so the text is JSONL.
bool begins_with_object(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const auto first = line.find_first_not_of(" \t");
  return first != std::string_view::npos && line[first] == '{' &&
      nlohmann::json::accept(line);
}

/// Standard output, or a file that appears when everything is done.
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

class LineEncoder {
 public:
  LineEncoder(
      const text::Tokenizer& tokenizer,
      const TokenizeOptions& options,
      Output& output)
      : encoder_(tokenizer.make_encoder()),
        parser_({options.json_key}),
        output_(output) {}

  void encode_line(std::string_view line) {
    write_ids(line, " ");
    output_.buffer() += '\n';
  }

  /// {"ids": […]}, or a list of lists where the text is a list of strings.
  void encode_json(std::span<char> line) {
    parser_.parse(line);
    const auto& text = parser_.texts().front();
    output_.buffer() += text.is_list ? R"({"ids": [)" : R"({"ids": )";
    bool first = true;
    for (const std::string_view part : text.parts) {
      output_.buffer() += first ? "[" : ", [";
      write_ids(part, ", ");
      output_.buffer() += ']';
      first = false;
    }
    output_.buffer() += text.is_list ? "]}\n" : "}\n";
  }

 private:
  void write_ids(std::string_view text, std::string_view separator) {
    bool first = true;
    const auto take = [&] {
      for (const TokenId id : ids_) {
        output_.buffer() += first ? std::string_view() : separator;
        const fmt::format_int digits(id);
        output_.buffer().append(digits.data(), digits.size());
        first = false;
      }
      ids_.clear();
      output_.flush_if_full();
    };
    encoder_->encode(text, ids_, {.take = std::ref(take)});
    take();
  }

  std::unique_ptr<text::Encoder> encoder_;
  data::JsonLineParser parser_;
  Output& output_;
  std::vector<TokenId> ids_;
};

class LineDecoder {
 public:
  LineDecoder(
      const text::Tokenizer& tokenizer,
      const TokenizeOptions& options,
      Output& output)
      : tokenizer_(tokenizer), options_(options), output_(output) {}

  void decode_line(std::string_view line) {
    ids_.clear();
    constexpr std::string_view spaces = " \t\r,";
    for (auto at = line.find_first_not_of(spaces);
         at != std::string_view::npos;) {
      const auto end = std::min(line.find_first_of(spaces, at), line.size());
      ids_.push_back(read_id(line.substr(at, end - at)));
      at = line.find_first_not_of(spaces, end);
    }
    output_.buffer() += decoded();
    output_.buffer() += '\n';
  }

  void decode_json(std::string_view line) {
    const auto json =
        nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
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
    // JSON cannot hold bytes that are not UTF-8: U+FFFD stands for them.
    output_.buffer() +=
        result.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    output_.buffer() += '\n';
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
  Output& output_;
  std::vector<TokenId> ids_;
};

/// The input, block by block. The first block is read at once, so that one can
/// look at it.
class Input {
 public:
  explicit Input(const std::string& path) : reader_(path, {}) {
    more_ = reader_.next(block_);
  }

  std::string_view first_block() const { return block_.text(); }

  /// Calls `work` for every line, without its newline. Errors get the line's
  /// place.
  template <class Work>
  void for_each_line(Output& output, Work&& work) {
    for (; more_; more_ = reader_.next(block_)) {
      std::span<char> rest(block_.buffer.data(), block_.size);
      for (std::uint64_t i = 0; !rest.empty(); ++i) {
        const std::string_view text(rest.data(), rest.size());
        const auto size = std::min(text.find('\n'), text.size());
        try {
          work(rest.first(size));
        } catch (const DataError& error) {
          Problem problem = error.problem();
          if (problem.where.empty()) {
            problem.where =
                fmt::format("{}:{}", block_.file, block_.first_line + i);
          }
          throw DataError(std::move(problem));
        }
        output.flush_if_full();
        rest = rest.subspan(std::min(size + 1, rest.size()));
      }
    }
    output.finish();
  }

 private:
  data::BlockReader reader_;
  data::LineBlock block_;
  bool more_ = false;
};

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
         "{\"text\": …} a line gives {\"ids\": […]}. When not given, told from "
         "the file names; standard input is jsonl if its first line is a JSON "
         "object")
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
  const auto named = is_jsonl(options);
  const auto check_key = [&](bool jsonl) {
    if (json_key->count() > 0 && !jsonl) {
      throw ConfigError(
          {.what = "--json-key is for JSONL, and this is plain text",
           .remedy = "add --format jsonl if it is not"});
    }
  };
  check_key(named.value_or(true));
  const auto tokenizer = text::load_tokenizer(options.tokenizer);
  Input input(options.input);
  const bool jsonl = named ? *named : begins_with_object(input.first_block());
  check_key(jsonl);
  Output output(options.output);
  if (options.decode) {
    LineDecoder decoder(*tokenizer, options, output);
    input.for_each_line(output, [&](std::span<char> text) {
      const std::string_view whole(text.data(), text.size());
      jsonl ? decoder.decode_json(whole) : decoder.decode_line(whole);
    });
  } else {
    LineEncoder encoder(*tokenizer, options, output);
    input.for_each_line(output, [&](std::span<char> text) {
      jsonl ? encoder.encode_json(text)
            : encoder.encode_line({text.data(), text.size()});
    });
  }
  return exit_ok;
}

} // namespace cairn::cli
