#include "base/internal/ascii_case.h"
#include "corpus/wiki/wiki_elements.h"
#include "corpus/wiki/wiki_markup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <iterator>
#include <optional>
#include <utility>

namespace cairn::corpus {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t';
}

struct Tag {
  std::size_t element; ///< index in `wiki_elements`
  std::size_t end;     ///< after ">"
  bool closing = false;
  bool empty = false; ///< as in <br/>
};

/// The known tag at `at`, where there is a "<". Never looks past the next "<",
/// so that a text full of them takes linear time.
std::optional<Tag> tag_at(std::string_view text, std::size_t at) {
  std::size_t i = at + 1;
  const auto skip_spaces = [&] {
    while (i < text.size() && is_space(text[i])) {
      ++i;
    }
  };
  skip_spaces();
  Tag tag{};
  if (i < text.size() && text[i] == '/') {
    tag.closing = true;
    ++i;
    skip_spaces();
  }
  std::array<char, 16> name;
  std::size_t length = 0;
  while (i < text.size() && length < name.size() &&
         ((lower_case(text[i]) >= 'a' && lower_case(text[i]) <= 'z') ||
          (length > 0 && text[i] >= '0' && text[i] <= '9'))) {
    name[length++] = lower_case(text[i++]);
  }
  const std::string_view wanted(name.data(), length);
  const auto found = std::lower_bound(
      wiki_elements.begin(),
      wiki_elements.end(),
      wanted,
      [](const auto& each, auto key) { return each.name < key; });
  if (found == wiki_elements.end() || found->name != wanted) {
    return std::nullopt;
  }
  const std::size_t end = std::min(text.find_first_of("<>", i), text.size());
  if (end > i && text[i] != '/' && !is_space(text[i])) {
    return std::nullopt;
  }
  tag.element = static_cast<std::size_t>(found - wiki_elements.begin());
  if (end == text.size() || text[end] == '<') {
    // Without a ">" it is no tag. But an unfinished reference is no text
    // either; it is dropped up to the end of the line.
    if (found->action != ElementAction::once) {
      return std::nullopt;
    }
    tag.empty = true;
    tag.end = std::min(text.substr(0, end).find('\n', i), end);
    return tag;
  }
  tag.empty = text[end - 1] == '/';
  tag.end = end + 1;
  return tag;
}

class TagRemover {
 public:
  TagRemover(std::string_view text, ProtectedTexts& texts)
      : text_(text), texts_(texts) {
    out_.reserve(text.size());
  }

  std::string run() {
    std::size_t at = 0;
    while (at < text_.size()) {
      const std::size_t next = std::min(text_.find('<', at), text_.size());
      out_.append(text_, at, next - at);
      at = next < text_.size() ? after_bracket(next) : next;
    }
    return std::move(out_);
  }

 private:
  /// Handles the markup that begins at `at`; returns where to continue.
  std::size_t after_bracket(std::size_t at) {
    if (text_.substr(at).starts_with("<!--")) {
      const std::size_t end = text_.find("-->", at + 4);
      return end == std::string_view::npos ? text_.size() : end + 3;
    }
    const auto tag = tag_at(text_, at);
    if (!tag) {
      out_ += '<';
      return at + 1;
    }
    const ElementAction action = wiki_elements[tag->element].action;
    switch (action) {
      case ElementAction::strip:
        break;
      case ElementAction::gap:
        out_ += ' ';
        break;
      case ElementAction::once:
        if (!tag->closing && open_count_[tag->element] > 0) {
          break;
        }
        [[fallthrough]];
      case ElementAction::drop:
        drop(*tag);
        break;
      case ElementAction::literal:
      case ElementAction::formula:
      case ElementAction::code:
        if (!tag->closing && !tag->empty) {
          return protect(*tag, action);
        }
        break;
    }
    return tag->end;
  }

  void drop(const Tag& tag) {
    if (!tag.closing) {
      if (!tag.empty) {
        open_.push_back({tag.element, out_.size()});
        ++open_count_[tag.element];
      }
      return;
    }
    if (open_count_[tag.element] == 0) {
      return;
    }
    while (true) { // elements opened inside are dropped too
      const Open last = open_.back();
      open_.pop_back();
      --open_count_[last.element];
      if (last.element == tag.element) {
        out_.resize(last.start);
        return;
      }
    }
  }

  std::size_t protect(const Tag& tag, ElementAction action) {
    // If no closing tag was found once, there is none further on either.
    if (!never_closed_[tag.element]) {
      std::size_t at = tag.end;
      while ((at = text_.find("</", at)) != std::string_view::npos) {
        const auto closing = tag_at(text_, at);
        if (closing && closing->element == tag.element) {
          put(action, text_.substr(tag.end, at - tag.end));
          return closing->end;
        }
        at += 2;
      }
      never_closed_.set(tag.element);
    }
    return tag.end;
  }

  void put(ElementAction action, std::string_view content) {
    using Kind = ProtectedText::Kind;
    const Kind kind = action == ElementAction::formula ? Kind::formula
        : action == ElementAction::code                ? Kind::code
                                                       : Kind::literal;
    fmt::format_to(std::back_inserter(out_), "\1{}\2", texts_.size());
    texts_.push_back({kind, std::string(content)});
  }

  struct Open {
    std::size_t element;
    std::size_t start; ///< in the output
  };

  std::string_view text_;
  ProtectedTexts& texts_;
  std::string out_;
  std::vector<Open> open_;
  std::array<std::size_t, wiki_elements.size()> open_count_{};
  std::bitset<wiki_elements.size()> never_closed_;
};

} // namespace

std::string without_tags(std::string_view text, ProtectedTexts& texts) {
  return TagRemover(text, texts).run();
}

} // namespace cairn::corpus
