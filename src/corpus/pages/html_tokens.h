#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::corpus {

struct HtmlAttribute {
  std::string name; ///< in lower case
  std::string value;
};

struct HtmlToken {
  enum class Kind { text, start, end };
  Kind kind = Kind::text;
  std::string text; ///< with references decoded; for a tag, its name
  std::vector<HtmlAttribute> attributes{};
  bool self_closing = false;

  /// The value of the first attribute of that name; null when there is none.
  const std::string* attribute(std::string_view name) const;
};

/// How the text behind a start tag is read.
enum class HtmlContent {
  markup,
  references, ///< text with references, up to the end tag: <title>
  raw,        ///< text as it stands, up to the end tag: <style>
  script,     ///< the same, with the rules for <!-- in <script>
  plain,      ///< text up to the end of the page
};

/// Cuts a page into tags and texts by the rules of the HTML standard for
/// tokenizers, in a time that is proportional to its length. Comments,
/// declarations and processing instructions are left out.
class HtmlTokens {
 public:
  /// `page` is UTF-8 without zero bytes and with "\n" as line end; it must
  /// outlive this object.
  explicit HtmlTokens(std::string_view page) : page_(page) {}

  /// Reads the next token; false at the end of the page. A text may come in
  /// several tokens.
  bool next(HtmlToken& token);

  /// Says how the text behind the start tag `name` is read, until its end tag.
  void read_as(HtmlContent content, std::string_view name);

 private:
  bool next_markup(HtmlToken& token);
  bool next_text(HtmlToken& token);
  void skip_declaration();
  bool read_tag(HtmlToken& token);
  void read_attribute(HtmlToken& token);
  std::string read_value();
  void read_reference(std::string& out, bool in_attribute);
  void read_number(std::string& out);
  std::string_view raw_text();
  std::size_t script_end() const;
  bool is_tag_at(std::size_t at, std::string_view name) const;
  bool skip_blanks();
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < page_.size() ? page_[at_ + ahead] : '\0';
  }

  std::string_view page_;
  std::size_t at_ = 0;
  HtmlContent content_ = HtmlContent::markup;
  std::string raw_name_; ///< whose end tag ends the text
};

} // namespace cairn::corpus
