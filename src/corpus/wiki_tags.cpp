#include "corpus/wiki_markup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <iterator>
#include <optional>
#include <utility>

namespace cairn::corpus {
namespace {

enum class Action {
  strip,   ///< the tag goes, the content stays
  drop,    ///< both go
  gap,     ///< the tag becomes a blank
  literal, ///< the content is no markup
  formula,
  code,
};

struct Element {
  std::string_view name;
  Action action;
};

constexpr std::array elements{
    Element{"a", Action::strip},
    Element{"abbr", Action::strip},
    Element{"b", Action::strip},
    Element{"bdi", Action::strip},
    Element{"bdo", Action::strip},
    Element{"big", Action::strip},
    Element{"blockquote", Action::strip},
    Element{"br", Action::gap},
    Element{"caption", Action::drop},
    Element{"ce", Action::formula},
    Element{"center", Action::strip},
    Element{"chem", Action::formula},
    Element{"cite", Action::strip},
    Element{"code", Action::code},
    Element{"data", Action::strip},
    Element{"dd", Action::drop},
    Element{"del", Action::strip},
    Element{"dfn", Action::strip},
    Element{"dir", Action::drop},
    Element{"div", Action::strip},
    Element{"dl", Action::drop},
    Element{"dt", Action::drop},
    Element{"em", Action::strip},
    Element{"font", Action::strip},
    Element{"form", Action::drop},
    Element{"gallery", Action::drop},
    Element{"graph", Action::drop},
    Element{"h1", Action::strip},
    Element{"h2", Action::strip},
    Element{"h3", Action::strip},
    Element{"h4", Action::strip},
    Element{"h5", Action::strip},
    Element{"h6", Action::strip},
    Element{"hiero", Action::strip},
    Element{"hr", Action::gap},
    Element{"i", Action::strip},
    Element{"imagemap", Action::drop},
    Element{"img", Action::strip},
    Element{"includeonly", Action::drop},
    Element{"indicator", Action::drop},
    Element{"input", Action::strip},
    Element{"inputbox", Action::drop},
    Element{"ins", Action::strip},
    Element{"kbd", Action::strip},
    Element{"li", Action::drop},
    Element{"mapframe", Action::drop},
    Element{"maplink", Action::drop},
    Element{"mark", Action::strip},
    Element{"math", Action::formula},
    Element{"menu", Action::drop},
    Element{"nobr", Action::strip},
    Element{"noinclude", Action::drop},
    Element{"nowiki", Action::literal},
    Element{"ol", Action::drop},
    Element{"onlyinclude", Action::strip},
    Element{"option", Action::drop},
    Element{"p", Action::strip},
    Element{"plaintext", Action::strip},
    Element{"poem", Action::strip},
    Element{"pre", Action::drop},
    Element{"q", Action::strip},
    Element{"rb", Action::strip},
    Element{"ref", Action::drop},
    Element{"references", Action::drop},
    Element{"rp", Action::drop},
    Element{"rt", Action::drop},
    Element{"ruby", Action::strip},
    Element{"s", Action::strip},
    Element{"samp", Action::strip},
    Element{"score", Action::drop},
    Element{"section", Action::strip},
    Element{"select", Action::drop},
    Element{"small", Action::drop},
    Element{"source", Action::drop},
    Element{"span", Action::strip},
    Element{"strike", Action::strip},
    Element{"strong", Action::strip},
    Element{"sub", Action::strip},
    Element{"sup", Action::strip},
    Element{"syntaxhighlight", Action::literal},
    Element{"table", Action::drop},
    Element{"td", Action::drop},
    Element{"templatedata", Action::drop},
    Element{"templatestyles", Action::drop},
    Element{"textarea", Action::drop},
    Element{"th", Action::drop},
    Element{"time", Action::strip},
    Element{"timeline", Action::drop},
    Element{"tr", Action::drop},
    Element{"tt", Action::strip},
    Element{"u", Action::strip},
    Element{"ul", Action::drop},
    Element{"var", Action::strip},
    Element{"wbr", Action::strip},
};

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t';
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

struct Tag {
  std::size_t element; ///< index of `elements`
  std::size_t end;     ///< behind ">"
  bool closing = false;
  bool empty = false; ///< <br/>
};

/// The known tag at `at`, where there is a "<". It never looks past the next
/// "<", so that a text of nothing else takes no more than linear time.
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
         ((lower(text[i]) >= 'a' && lower(text[i]) <= 'z') ||
          (length > 0 && text[i] >= '0' && text[i] <= '9'))) {
    name[length++] = lower(text[i++]);
  }
  const std::string_view wanted(name.data(), length);
  const auto found = std::lower_bound(
      elements.begin(),
      elements.end(),
      wanted,
      [](const auto& each, auto key) { return each.name < key; });
  if (found == elements.end() || found->name != wanted) {
    return std::nullopt;
  }
  const std::size_t end = text.find_first_of("<>", i);
  if (end == std::string_view::npos || text[end] == '<' ||
      (end > i && text[i] != '/' && !is_space(text[i]))) {
    return std::nullopt;
  }
  tag.element = static_cast<std::size_t>(found - elements.begin());
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
  /// Deals with what begins at `at`; returns where to go on.
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
    const Action action = elements[tag->element].action;
    switch (action) {
      case Action::strip:
        break;
      case Action::gap:
        out_ += ' ';
        break;
      case Action::drop:
        drop(*tag);
        break;
      case Action::literal:
      case Action::formula:
      case Action::code:
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
    while (true) { // what was opened within is dropped with it
      const Open last = open_.back();
      open_.pop_back();
      --open_count_[last.element];
      if (last.element == tag.element) {
        out_.resize(last.start);
        return;
      }
    }
  }

  std::size_t protect(const Tag& tag, Action action) {
    // Once no closing tag was found there is none further on either.
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

  void put(Action action, std::string_view content) {
    using Kind = ProtectedText::Kind;
    const Kind kind = action == Action::formula ? Kind::formula
        : action == Action::code                ? Kind::code
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
  std::array<std::size_t, elements.size()> open_count_{};
  std::bitset<elements.size()> never_closed_;
};

} // namespace

std::string without_tags(std::string_view text, ProtectedTexts& texts) {
  static_assert(std::is_sorted(
      elements.begin(),
      elements.end(),
      [](const auto& a, const auto& b) { return a.name < b.name; }));
  return TagRemover(text, texts).run();
}

} // namespace cairn::corpus
