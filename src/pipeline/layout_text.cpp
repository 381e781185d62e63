#include "pipeline/layout_text.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cstddef>
#include <string>

namespace cairn::pipeline {
namespace {

constexpr std::size_t longest = 1 << 16; ///< letters, once all is written out

[[noreturn]] void refuse(
    std::string what,
    std::string_view text,
    std::string remedy) {
  throw ConfigError(
      {.what = std::move(what),
       .where = "--pipeline-model-parallel-layout",
       .values = fmt::format("\"{}\"", text.substr(0, 200)),
       .remedy = std::move(remedy)});
}

/// Writes out what the text repeats.
class Unfolded {
 public:
  explicit Unfolded(std::string_view text) : text_(text) { run(); }
  const std::string& letters() const { return letters_; }

 private:
  void run() {
    while (at_ < text_.size()) {
      const char letter = text_[at_++];
      if (letter == ',' || letter == ' ') {
        continue;
      }
      std::string group(1, letter);
      if (letter == '(') {
        const std::size_t end = text_.find(')', at_);
        if (end == std::string_view::npos) {
          refuse("a bracket is not closed", text_, "write (t|)*3");
        }
        group.clear();
        for (const char inner : text_.substr(at_, end - at_)) {
          if (inner == '(') {
            refuse(
                "brackets within brackets",
                text_,
                "write the inner ones out");
          }
          if (inner != ',' && inner != ' ') {
            group += inner;
          }
        }
        at_ = end + 1;
      }
      append(group, times());
    }
  }

  /// The number behind a "*"; 1 where there is none.
  std::size_t times() {
    if (at_ >= text_.size() || text_[at_] != '*') {
      return 1;
    }
    std::size_t count = 0;
    const char* const begin = text_.data() + at_ + 1;
    const auto [end, error] =
        std::from_chars(begin, text_.data() + text_.size(), count);
    if (error != std::errc() || count == 0 || count > longest) {
      refuse("no number behind a \"*\"", text_, "write t*3 or (t|)*3");
    }
    at_ = static_cast<std::size_t>(end - text_.data());
    return count;
  }

  void append(const std::string& group, std::size_t count) {
    if (letters_.size() + group.size() * count > longest) {
      refuse("a layout of too many layers", text_, "use smaller numbers");
    }
    for (std::size_t i = 0; i < count; ++i) {
      letters_ += group;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string letters_;
};

} // namespace

std::vector<LayoutPart> parse_layout(std::string_view text) {
  std::vector<LayoutPart> parts(1);
  const Unfolded unfolded(text);
  for (const char letter : unfolded.letters()) {
    LayoutPart& part = parts.back();
    if (part.loss) {
      refuse("something follows the loss", text, "put L at the end");
    }
    switch (letter) {
      case '|':
        parts.emplace_back();
        break;
      case 'E':
        if (parts.size() > 1 || part.embedding || part.blocks > 0) {
          refuse(
              "the embedding is not the first layer",
              text,
              "begin with E, and write it once");
        }
        part.embedding = true;
        break;
      case 't':
        ++part.blocks;
        break;
      case 'L':
        part.loss = true;
        break;
      case 'm':
        refuse(
            "layers that predict several tokens (m) are not built",
            text,
            "use E, t and L");
      default:
        refuse(
            std::isprint(static_cast<unsigned char>(letter)) != 0
                ? fmt::format("an unknown letter '{}'", letter)
                : "an unknown byte",
            text,
            "use E, t, L and |");
    }
  }
  if (!parts.front().embedding || !parts.back().loss) {
    refuse(
        "the embedding or the loss is missing",
        text,
        "begin with E and end with L");
  }
  for (std::size_t p = 0; p < parts.size(); ++p) {
    if (parts[p] == LayoutPart{}) {
      refuse(
          fmt::format("stage {} has no layer", p),
          text,
          "give every stage at least one layer");
    }
  }
  return parts;
}

} // namespace cairn::pipeline
