#include "corpus/pages/html_tokens.h"

#include "base/internal/ascii_case.h"
#include "base/internal/ascii_kind.h"
#include "base/internal/utf8.h"
#include "corpus/clean/unicode.h"
#include "corpus/wiki/character_reference.h"
#include "corpus/wiki/named_references.h"

#include <algorithm>
#include <cstdint>

namespace cairn::corpus {
namespace {

constexpr std::string_view blanks = " \t\n\f\r";

/// The value of a hexadecimal digit; -1 for another character.
int digit_value(char c) {
  const char lower = lower_case(c);
  return is_ascii_digit(c)           ? c - '0'
      : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10
                                     : -1;
}

bool has_name_at(std::string_view page, std::size_t at, std::string_view name) {
  return page.size() - std::min(at, page.size()) >= name.size() &&
      std::equal(
             name.begin(),
             name.end(),
             page.begin() + static_cast<std::ptrdiff_t>(at),
             [](char a, char b) { return a == lower_case(b); });
}

} // namespace

const std::string* HtmlToken::attribute(std::string_view name) const {
  const auto found = std::ranges::find(attributes, name, &HtmlAttribute::name);
  return found == attributes.end() ? nullptr : &found->value;
}

void HtmlTokens::read_as(HtmlContent content, std::string_view name) {
  content_ = content;
  raw_name_ = name;
}

bool HtmlTokens::next(HtmlToken& token) {
  token.text.clear();
  token.attributes.clear();
  token.self_closing = false;
  while (at_ < page_.size()) {
    if (content_ == HtmlContent::markup ? next_markup(token)
                                        : next_text(token)) {
      return true;
    }
  }
  return false;
}

/// Reads a token of markup; false when what stood there is none.
bool HtmlTokens::next_markup(HtmlToken& token) {
  token.kind = HtmlToken::Kind::text;
  while (at_ < page_.size()) {
    const std::size_t stop =
        std::min(page_.find_first_of("<&", at_), page_.size());
    token.text.append(page_, at_, stop - at_);
    at_ = stop;
    if (at_ == page_.size()) {
      break;
    }
    if (peek() == '&') {
      read_reference(token.text, false);
      continue;
    }
    const bool ends = peek(1) == '/';
    const char first = peek(ends ? 2 : 1);
    const bool declares = !ends && (first == '!' || first == '?');
    const bool bogus =
        ends && at_ + 2 < page_.size() && !is_ascii_letter(first);
    if (!is_ascii_letter(first) && !declares && !bogus) {
      token.text += page_[at_++];
      continue;
    }
    if (!token.text.empty()) {
      return true;
    }
    if (declares || bogus) {
      skip_declaration();
      continue;
    }
    at_ += ends ? 2 : 1;
    token.kind = ends ? HtmlToken::Kind::end : HtmlToken::Kind::start;
    return read_tag(token);
  }
  return !token.text.empty();
}

/// Skips a comment, "<!doctype …>", "<?…>" or "</3…>".
void HtmlTokens::skip_declaration() {
  if (!page_.substr(at_).starts_with("<!--")) {
    const std::size_t end = page_.find('>', at_);
    at_ = std::min(end, page_.size() - 1) + 1;
    return;
  }
  at_ += 4;
  if (peek() == '>' || (peek() == '-' && peek(1) == '>')) {
    at_ += peek() == '>' ? 1 : 2;
    return;
  }
  // One search for both ends, "-->" and "--!>": a search for one that is
  // nowhere would read the whole page for each comment.
  while (true) {
    at_ = page_.find("--", at_);
    if (at_ == std::string_view::npos) {
      at_ = page_.size();
      return;
    }
    if (peek(2) == '>' || (peek(2) == '!' && peek(3) == '>')) {
      at_ += peek(2) == '>' ? 3 : 4;
      return;
    }
    ++at_;
  }
}

/// Reads a tag from its name on; false when the page ends in it.
bool HtmlTokens::read_tag(HtmlToken& token) {
  const std::size_t end =
      std::min(page_.find_first_of(" \t\n\f\r/>", at_), page_.size());
  token.text = lower_case(page_.substr(at_, end - at_));
  at_ = end;
  while (skip_blanks()) {
    if (peek() == '>') {
      ++at_;
      return true;
    }
    if (peek() == '/') {
      ++at_;
      token.self_closing = peek() == '>';
      continue;
    }
    read_attribute(token);
  }
  return false;
}

void HtmlTokens::read_attribute(HtmlToken& token) {
  // A "=" in front belongs to the name.
  const std::size_t end =
      std::min(page_.find_first_of(" \t\n\f\r/>=", at_ + 1), page_.size());
  std::string name = lower_case(page_.substr(at_, end - at_));
  at_ = end;
  std::string value;
  if (skip_blanks() && peek() == '=') {
    ++at_;
    value = read_value();
  }
  // An end tag has no use for attributes; and a tag may have a million of them.
  constexpr std::size_t most = 1000;
  if (token.kind == HtmlToken::Kind::start && token.attributes.size() < most) {
    token.attributes.push_back({std::move(name), std::move(value)});
  }
}

std::string HtmlTokens::read_value() {
  std::string value;
  if (!skip_blanks() || peek() == '>') {
    return value;
  }
  const char quote = peek() == '"' || peek() == '\'' ? peek() : '\0';
  at_ += quote != '\0' ? 1 : 0;
  const std::string_view stops = quote == '"' ? "\"&"
      : quote == '\''                         ? "'&"
                                              : " \t\n\f\r>&";
  while (at_ < page_.size()) {
    const std::size_t stop =
        std::min(page_.find_first_of(stops, at_), page_.size());
    value.append(page_, at_, stop - at_);
    at_ = stop;
    if (peek() != '&') {
      break;
    }
    read_reference(value, true);
  }
  at_ += quote != '\0' && at_ < page_.size() ? 1 : 0;
  return value;
}

/// Reads what begins with "&", a reference or not.
void HtmlTokens::read_reference(std::string& out, bool in_attribute) {
  if (peek(1) == '#') {
    read_number(out);
    return;
  }
  const auto* const found = longest_named_reference(page_.substr(at_ + 1));
  if (found != nullptr) {
    const char behind = peek(1 + found->name.size());
    // In an address such as "?a=1&copy=2" it is a parameter.
    const bool is_parameter = in_attribute && !found->name.ends_with(';') &&
        (behind == '=' || is_ascii_letter(behind) || is_ascii_digit(behind));
    if (!is_parameter) {
      append_utf8(out, found->first);
      if (found->second != 0) {
        append_utf8(out, found->second);
      }
      at_ += 1 + found->name.size();
      return;
    }
  }
  out += page_[at_++];
}

/// Reads what begins with "&#".
void HtmlTokens::read_number(std::string& out) {
  const bool hexadecimal = peek(2) == 'x' || peek(2) == 'X';
  std::size_t end = at_ + (hexadecimal ? 3 : 2);
  const std::size_t begin = end;
  constexpr std::uint32_t last_code = 0x10ffff;
  std::uint32_t code = 0;
  for (; end < page_.size(); ++end) {
    const int digit = digit_value(page_[end]);
    if (digit < 0 || (!hexadecimal && digit > 9)) {
      break;
    }
    code = std::min(
        code * (hexadecimal ? 16 : 10) + static_cast<std::uint32_t>(digit),
        last_code + 1);
  }
  if (end == begin) {
    out.append(page_, at_, end - at_);
    at_ = end;
    return;
  }
  at_ = end + (end < page_.size() && page_[end] == ';' ? 1 : 0);
  if (code == 0 || code > last_code || (code >= 0xd800 && code <= 0xdfff)) {
    append_utf8(out, replacement_character);
  } else {
    append_utf8(out, code >= 0x80 && code <= 0x9f ? windows_1252(code) : code);
  }
}

/// Reads text up to the end tag of `raw_name_`; false when it is empty.
bool HtmlTokens::next_text(HtmlToken& token) {
  token.kind = HtmlToken::Kind::text;
  const bool references = content_ == HtmlContent::references;
  const std::string_view text = raw_text();
  const std::size_t end = at_ + text.size();
  if (!references) {
    token.text = text;
  } else {
    const std::string_view page = page_;
    page_ = page_.substr(0, end); // a reference ends where the text does
    while (at_ < end) {
      const std::size_t stop = std::min(page_.find('&', at_), end);
      token.text.append(page_, at_, stop - at_);
      at_ = stop;
      if (at_ < end) {
        read_reference(token.text, false);
      }
    }
    page_ = page;
  }
  at_ = end;
  content_ = HtmlContent::markup;
  return !token.text.empty();
}

std::string_view HtmlTokens::raw_text() {
  if (content_ == HtmlContent::plain) {
    return page_.substr(at_);
  }
  if (content_ == HtmlContent::script) {
    return page_.substr(at_, script_end() - at_);
  }
  std::size_t end = page_.find("</", at_);
  while (end != std::string_view::npos && !is_tag_at(end + 2, raw_name_)) {
    end = page_.find("</", end + 2);
  }
  return page_.substr(at_, end - at_); // npos: the rest
}

/// The end of a script. "<!--" hides "</script>" if "<script" follows it, until
/// "</script>" or "-->".
std::size_t HtmlTokens::script_end() const {
  enum class State { script, escaped, doubly_escaped } state = State::script;
  std::size_t at = at_;
  while (true) {
    at = page_.find_first_of("<-", at);
    if (at == std::string_view::npos) {
      return page_.size();
    }
    const std::string_view rest = page_.substr(at);
    if (rest.starts_with("</") && is_tag_at(at + 2, raw_name_)) {
      if (state != State::doubly_escaped) {
        return at;
      }
      state = State::escaped;
      at += 2;
    } else if (state == State::script && rest.starts_with("<!--")) {
      state = State::escaped;
      at += 2; // the dashes may be those of "-->"
    } else if (state != State::script && rest.starts_with("-->")) {
      state = State::script;
      at += 3;
    } else if (
        state == State::escaped && is_tag_at(at + 1, "script") &&
        rest[0] == '<') {
      state = State::doubly_escaped;
      at += 1;
    } else {
      at += 1;
    }
  }
}

/// Whether a tag of that name is at `at`, behind its "<" or "</".
bool HtmlTokens::is_tag_at(std::size_t at, std::string_view name) const {
  const std::size_t end = at + name.size();
  return has_name_at(page_, at, name) && end < page_.size() &&
      std::string_view(" \t\n\f\r/>").find(page_[end]) !=
      std::string_view::npos;
}

/// Moves to the next character that is no blank; false at the end of the page.
bool HtmlTokens::skip_blanks() {
  at_ = std::min(page_.find_first_not_of(blanks, at_), page_.size());
  return at_ < page_.size();
}

} // namespace cairn::corpus
