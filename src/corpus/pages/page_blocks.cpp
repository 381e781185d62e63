#include "corpus/pages/page_blocks.h"

#include "base/internal/ascii_case.h"
#include "base/internal/trimmed.h"
#include "base/internal/utf8.h"
#include "corpus/pages/beside_names.h"
#include "corpus/pages/html_elements.h"
#include "corpus/pages/html_tokens.h"

#include <algorithm>
#include <utility>

namespace cairn::corpus {
namespace {

/// What holds for the text within an element.
struct Surroundings {
  bool dropped = false;
  bool foreign = false; ///< <svg>, <math>: another language than HTML
  bool link = false;
  int heading = 0; ///< its level
  bool preformatted = false;
  bool in_body = false;
  bool beside = false;
};

struct OpenElement {
  std::string name;
  std::uint32_t traits = 0;
  Surroundings surroundings{};

  bool is(std::uint32_t any_of) const { return (traits & any_of) != 0; }
};

constexpr std::uint32_t table_parts = html_cell | html_row;

bool is_table_part(const HtmlElement& element) {
  return element.is(table_parts) || element.name == "table" ||
      element.name == "tbody" || element.name == "thead" ||
      element.name == "tfoot";
}

bool is_hidden(const HtmlToken& tag) {
  if (tag.attribute("hidden") != nullptr) {
    return true;
  }
  const std::string* const aria = tag.attribute("aria-hidden");
  if (aria != nullptr && lower_case(trimmed(*aria)) == "true") {
    return true;
  }
  const std::string* const style = tag.attribute("style");
  if (style == nullptr) {
    return false;
  }
  std::string plain = lower_case(*style);
  std::erase_if(plain, [](char c) {
    return c == ' ' || c == '\n' || c == '\t';
  });
  return plain.find("display:none") != std::string::npos ||
      plain.find("visibility:hidden") != std::string::npos;
}

bool is_beside(const HtmlToken& tag) {
  const std::string* const role = tag.attribute("role");
  if (role != nullptr && is_beside_role(trimmed(*role))) {
    return true;
  }
  for (const char* const key : {"class", "id"}) {
    const std::string* const words = tag.attribute(key);
    std::string_view rest = words != nullptr ? *words : std::string_view();
    while (!(rest = trimmed(rest)).empty()) {
      const std::string_view word =
          rest.substr(0, rest.find_first_of(" \t\n\f\r"));
      if (is_beside_name(word)) {
        return true;
      }
      rest.remove_prefix(word.size());
    }
  }
  return false;
}

class BlockBuilder {
 public:
  explicit BlockBuilder(std::string_view html) : tokens_(html) {}

  PageBlocks build() {
    HtmlToken token;
    while (tokens_.next(token)) {
      switch (token.kind) {
        case HtmlToken::Kind::text:
          add_text(token.text);
          break;
        case HtmlToken::Kind::start:
          start(token);
          break;
        case HtmlToken::Kind::end:
          end(token.text);
          break;
      }
    }
    end_block();
    if (page_.title.empty()) {
      const auto heading = std::ranges::find(
          page_.blocks,
          PageBlock::Kind::heading,
          &PageBlock::kind);
      page_.title = heading != page_.blocks.end() ? heading->text : "";
    }
    constexpr std::size_t longest_title = 1000;
    page_.title.resize(character_start(page_.title, longest_title));
    return std::move(page_);
  }

 private:
  /// As in browsers; elements below are taken for parts of the last one.
  static constexpr std::size_t deepest = 512;

  Surroundings surroundings() const {
    return open_.empty() ? Surroundings{} : open_.back().surroundings;
  }

  void start(const HtmlToken& tag) {
    in_raw_ = false;
    const HtmlElement element = html_element(tag.text);
    const Surroundings outer = surroundings();
    if (outer.foreign && tag.self_closing) {
      return;
    }
    if (tag.text == "br") {
      add_line_end();
      return;
    }
    if (outer.foreign && element.is(html_block)) {
      leave_foreign();
    }
    close_implied(element);
    if (element.is(html_block)) {
      end_block();
      item_begins_ = item_begins_ || element.is(html_item);
    }
    if (element.is(html_void)) {
      return;
    }
    if (element.content != HtmlContent::markup && !outer.foreign) {
      tokens_.read_as(element.content, tag.text);
    }
    if (open_.size() == deepest) {
      ++too_deep_;
      in_raw_ =
          element.is(html_dropped) && element.content != HtmlContent::markup;
      return;
    }
    open_.push_back(
        {tag.text, element.traits, within(surroundings(), element, tag)});
    if (tag.text == "title" && !outer.dropped && page_.title.empty()) {
      in_title_ = true;
    }
  }

  static Surroundings within(
      Surroundings outer,
      const HtmlElement& element,
      const HtmlToken& tag) {
    const bool whole = tag.text == "body" || tag.text == "html";
    const bool subject = element.is(html_body) || whole;
    const bool beside = !subject && is_beside(tag);
    outer.dropped = outer.dropped || element.is(html_dropped) ||
        (!whole && is_hidden(tag)) || // scripts show a hidden page
        (beside && !element.is(html_block));
    outer.foreign = outer.foreign || tag.text == "svg" || tag.text == "math";
    outer.link =
        outer.link || (tag.text == "a" && tag.attribute("href") != nullptr);
    if (element.is(html_heading)) {
      outer.heading = tag.text[1] - '0';
    }
    outer.preformatted = outer.preformatted || element.is(html_preformatted);
    outer.in_body = outer.in_body || element.is(html_body);
    // A page's <header> has its name and menus; an article's has its title.
    outer.beside =
        outer.beside || beside || (tag.text == "header" && !outer.in_body);
    return outer;
  }

  void end(const std::string& name) {
    in_raw_ = false;
    const HtmlElement element = html_element(name);
    if (name == "br") {
      add_line_end();
      return;
    }
    if (element.is(html_block)) {
      end_block();
    }
    if (too_deep_ > 0) {
      --too_deep_;
      return;
    }
    if (name == "body" || name == "html") {
      return; // what follows belongs to them all the same
    }
    const bool of_table = is_table_part(element);
    for (std::size_t i = open_.size(); i-- > 0;) {
      const OpenElement& each = open_[i];
      if (each.name == name ||
          (element.is(html_heading) && each.is(html_heading))) {
        close_from(i);
        return;
      }
      const bool limits = element.is(html_block)
          ? (of_table ? each.name == "table" : each.is(html_limit))
          : each.is(html_block);
      if (limits) {
        return;
      }
    }
  }

  /// Closes what the start tag of `element` ends without an end tag.
  void close_implied(const HtmlElement& element) {
    if (element.is(html_closes_paragraph)) {
      close_nearest(html_paragraph, html_limit);
    }
    if (element.is(html_item)) {
      close_list_part(html_item);
    } else if (element.is(html_term)) {
      close_list_part(html_term);
    } else if (element.is(html_option)) {
      close_nearest(html_option, html_block);
    } else if (is_table_part(element) && element.name != "table") {
      close_table_part(element);
    } else if (
        element.is(html_heading) && !open_.empty() &&
        open_.back().is(html_heading)) {
      close_from(open_.size() - 1);
    } else if (element.name == "a") {
      end("a");
    }
  }

  /// A block of HTML ends <svg>, unless it is within its <foreignObject>.
  void leave_foreign() {
    for (std::size_t i = open_.size(); i-- > 0;) {
      if (open_[i].name == "foreignobject") {
        return;
      }
      if (i == 0 || !open_[i - 1].surroundings.foreign) {
        close_from(i);
        return;
      }
    }
  }

  void close_nearest(std::uint32_t wanted, std::uint32_t limits) {
    for (std::size_t i = open_.size(); i-- > 0;) {
      if (open_[i].is(wanted)) {
        close_from(i);
        return;
      }
      if (open_[i].is(limits)) {
        return;
      }
    }
  }

  void close_list_part(std::uint32_t wanted) {
    for (std::size_t i = open_.size(); i-- > 0;) {
      const OpenElement& each = open_[i];
      if (each.is(wanted)) {
        close_from(i);
        return;
      }
      if (each.is(html_block) && !each.is(html_paragraph) &&
          each.name != "div" && each.name != "address") {
        return;
      }
    }
  }

  void close_table_part(const HtmlElement& element) {
    std::size_t from = open_.size();
    for (std::size_t i = open_.size(); i-- > 0;) {
      if (open_[i].name == "table") {
        break;
      }
      if (open_[i].is(element.is(html_cell) ? html_cell : table_parts)) {
        from = i;
      }
    }
    close_from(from);
  }

  void close_from(std::size_t index) {
    for (std::size_t i = index; i < open_.size(); ++i) {
      if (open_[i].is(html_block)) {
        end_block();
      }
      if (open_[i].is(html_item)) {
        item_begins_ = false;
      }
    }
    open_.resize(index);
    in_title_ = false;
  }

  void add_text(std::string_view text) {
    const Surroundings here = surroundings();
    if (in_title_) {
      append_collapsed(page_.title, text, false);
    }
    if (here.dropped || in_raw_) {
      return;
    }
    const std::size_t before = bytes_;
    if (here.preformatted) {
      append_as_it_is(text);
    } else {
      append_collapsed(text_, text, true);
    }
    if (here.link) {
      link_bytes_ += bytes_ - before;
    }
    if (bytes_ > before) {
      here_ = here;
    }
  }

  /// Appends `text` with one blank for a run of blanks, without soft hyphens
  /// and other invisible characters.
  void append_collapsed(std::string& out, std::string_view text, bool count) {
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Char c =
          decode_utf8(text.data() + at, text.data() + text.size());
      const std::string_view bytes = text.substr(at, c.length);
      at += c.length;
      if (is_invisible(c.code_point)) {
        continue;
      }
      if (is_blank(c.code_point)) {
        if (!out.empty() && out.back() != ' ' && out.back() != '\n') {
          out += ' ';
        }
        continue;
      }
      out += bytes;
      bytes_ += count ? bytes.size() : 0;
    }
  }

  void append_as_it_is(std::string_view text) {
    text_ += text;
    bytes_ += static_cast<std::size_t>(std::ranges::count_if(text, [](char c) {
      return c != ' ' && c != '\n' && c != '\t';
    }));
  }

  static bool is_blank(char32_t c) {
    return c == ' ' || c == '\t' || c == '\n' || c == 0xa0 ||
        (c >= 0x2000 && c <= 0x200a) || c == 0x202f || c == 0x205f ||
        c == 0x2028 || c == 0x2029 || c == 0x3000;
  }

  static bool is_invisible(char32_t c) {
    return c < 0x20 ? c != '\t' && c != '\n'
                    : (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x200b ||
            c == 0x2060 || c == 0xfeff || c == Utf8Char::invalid;
  }

  /// Ends the line; two line ends in a row end the block.
  void add_line_end() {
    if (surroundings().dropped) {
      return;
    }
    if (surroundings().preformatted) {
      text_ += '\n';
      return;
    }
    if (text_.ends_with('\n')) {
      end_block();
    } else if (!text_.empty()) {
      if (text_.back() == ' ') {
        text_.pop_back();
      }
      text_ += '\n';
    }
  }

  void end_block() {
    using Kind = PageBlock::Kind;
    std::string_view text = text_;
    if (here_.preformatted) {
      text = text.substr(0, text.find_last_not_of(" \t\n") + 1);
      // The first line keeps its indentation.
      const std::size_t first = text.find_first_not_of(" \t\n");
      if (first != std::string_view::npos) {
        const std::size_t line = text.substr(0, first).rfind('\n');
        text.remove_prefix(line == std::string_view::npos ? 0 : line + 1);
      }
    } else {
      text = trimmed(text);
    }
    if (bytes_ > 0 && !text.empty()) {
      page_.blocks.push_back(
          {.kind = here_.preformatted ? Kind::preformatted
               : here_.heading > 0    ? Kind::heading
               : item_begins_         ? Kind::item
                                      : Kind::paragraph,
           .level = here_.heading,
           .text = std::string(text),
           .link_bytes = link_bytes_,
           .bytes = bytes_,
           .in_body = here_.in_body,
           .beside = here_.beside});
      item_begins_ = false;
    }
    text_.clear();
    bytes_ = 0;
    link_bytes_ = 0;
  }

  HtmlTokens tokens_;
  PageBlocks page_;
  std::vector<OpenElement> open_;
  std::size_t too_deep_ = 0; ///< open elements that are not in open_
  bool in_raw_ = false;      ///< in a script or the like that is too deep
  bool in_title_ = false;
  bool item_begins_ = false; ///< the next block is the first of a list item
  // The block that is being read.
  std::string text_;
  Surroundings here_{}; ///< of its last text
  std::size_t bytes_ = 0;
  std::size_t link_bytes_ = 0;
};

} // namespace

PageBlocks page_blocks(std::string_view html) {
  return BlockBuilder(html).build();
}

} // namespace cairn::corpus
