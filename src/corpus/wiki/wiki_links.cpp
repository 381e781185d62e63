#include "base/internal/ascii_case.h"
#include "base/internal/trimmed.h"
#include "corpus/wiki/wiki_markup.h"

#include <unicode/uloc.h>

#include <algorithm>
#include <array>
#include <utility>

namespace cairn::corpus {
namespace {

constexpr std::array<std::string_view, 28> protocols{
    "//",        "bitcoin:", "ftp://",       "ftps://", "geo:",     "git://",
    "gopher://", "http://",  "https://",     "irc://",  "ircs://",  "magnet:",
    "mailto:",   "mms://",   "news:",        "nntp://", "redis://", "sftp://",
    "sip:",      "sips:",    "sms:",         "ssh://",  "svn://",   "tel:",
    "telnet://", "urn:",     "worldwind://", "xmpp:"};

/// In titles an underscore stands for a blank.
constexpr std::string_view title_blanks = " \n\t_";

/// Prefixes of links to other wikis. Links to the dictionary (wikt) and to
/// Wikipedia (w) are words of the text.
constexpr std::array<std::string_view, 31> other_wikis{
    "b",         "c",          "commons",     "d",           "doi",
    "incubator", "m",          "media",       "meta",        "metawikipedia",
    "mw",        "n",          "outreach",    "phab",        "q",
    "s",         "simple",     "species",     "strategy",    "v",
    "voy",       "wikibooks",  "wikidata",    "wikimedia",   "wikinews",
    "wikiquote", "wikisource", "wikispecies", "wikiversity", "wikivoyage",
    "wmf"};

/// True for codes like fr, als, zh-min-nan.
bool is_language_code(std::string_view prefix) {
  if (prefix.size() < 2 || prefix.size() > 16 ||
      !std::all_of(prefix.begin(), prefix.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || c == '-';
      })) {
    return false;
  }
  const std::string language(prefix.substr(0, prefix.find('-')));
  return language.size() >= 2 && language.size() <= 3 &&
      *::uloc_getISO3Language(language.c_str()) != '\0';
}

class LinkRemover {
 public:
  LinkRemover(std::string_view text, const WikiTextOptions& options)
      : text_(text), options_(options) {
    out_.reserve(text.size());
  }

  std::string run() {
    std::size_t at = 0;
    while (at < text_.size()) {
      const std::size_t next =
          std::min(text_.find_first_of("[]|\n", at), text_.size());
      out_.append(text_, at, next - at);
      at = next < text_.size() ? after_mark(next) : next;
    }
    return std::move(out_);
  }

 private:
  /// Deepest nesting of links. A label is moved when a link around it ends, so
  /// this bounds the number of moves.
  static constexpr std::size_t deepest = 16;

  struct Open {
    bool external;
    std::size_t start; ///< offset in the output, like the next two
    std::size_t first_bar = std::string::npos;
    std::size_t label = std::string::npos; ///< after the last bar
    std::size_t brackets = 0;              ///< open single brackets within
  };

  std::size_t after_mark(std::size_t at) {
    const std::string_view rest = text_.substr(at);
    switch (rest[0]) {
      case '[':
        return open(at, rest);
      case ']':
        return close(at, rest);
      case '|':
        out_ += '|';
        if (!open_.empty() && !open_.back().external) {
          Open& link = open_.back();
          link.first_bar = std::min(link.first_bar, out_.size() - 1);
          link.label = out_.size();
        }
        return at + 1;
      default: // an external link ends with its line
        while (!open_.empty() && open_.back().external) {
          open_.pop_back();
        }
        if (rest.starts_with("\n\n")) {
          forget_unclosed();
        }
        out_ += '\n';
        return at + 1;
    }
  }

  /// Drops links that are still open at the end of a paragraph; only captions
  /// of files may continue.
  void forget_unclosed() {
    // Looking at the front is enough, and avoids reading a long caption again
    // at each of its paragraphs.
    constexpr std::size_t glance = 256;
    while (!open_.empty() &&
           !is_no_text(title_of(open_.back()).substr(0, glance))) {
      open_.pop_back();
    }
    too_deep_ = 0;
  }

  std::string_view title_of(const Open& link) const {
    return std::string_view(out_).substr(
        link.start,
        std::min(link.first_bar, out_.size()) - link.start);
  }

  std::size_t open(std::size_t at, std::string_view rest) {
    if (rest.starts_with("[[")) {
      if (open_.size() < deepest) {
        open_.push_back({false, out_.size()});
      } else {
        ++too_deep_;
      }
      return at + 2;
    }
    if (const std::size_t end = end_of_url(at + 1);
        end > at + 1 && open_.size() < deepest) {
      open_.push_back({true, out_.size()});
      return std::min(text_.find_first_not_of(' ', end), text_.size());
    }
    out_ += '[';
    if (!open_.empty()) {
      ++open_.back().brackets;
    }
    return at + 1;
  }

  std::size_t close(std::size_t at, std::string_view rest) {
    if (!open_.empty() && open_.back().brackets > 0) {
      --open_.back().brackets;
    } else if (rest.starts_with("]]") && too_deep_ > 0) {
      --too_deep_;
      return at + 2;
    } else if (!open_.empty() && open_.back().external) {
      open_.pop_back();
      return at + 1;
    } else if (rest.starts_with("]]") && !open_.empty()) {
      const Open link = open_.back();
      open_.pop_back();
      keep_label(link);
      return at + 2;
    }
    out_ += ']';
    return at + 1;
  }

  void keep_label(const Open& link) {
    const std::string_view inner = std::string_view(out_).substr(link.start);
    const bool barred = link.first_bar != std::string::npos;
    if (is_no_text(title_of(link))) {
      out_.resize(link.start);
      return;
    }
    if (barred) {
      const std::string_view label =
          trimmed(inner.substr(link.label - link.start), title_blanks);
      const auto begin = static_cast<std::size_t>(label.data() - out_.data());
      const std::size_t size = label.size();
      out_.resize(size == 0 ? link.start : begin + size);
      if (size > 0) {
        out_.erase(link.start, begin - link.start);
      }
    }
  }

  bool is_no_text(std::string_view title) const {
    title = trimmed(title, title_blanks);
    const bool escaped = title.starts_with(':'); // [[:Category:…]]
    title.remove_prefix(escaped ? 1 : 0);
    const std::size_t colon = title.find(':');
    if (colon == std::string_view::npos || colon == 0) {
      return false;
    }
    constexpr std::size_t longest_prefix = 100;
    if (colon > longest_prefix) {
      return false;
    }
    const std::string_view prefix =
        trimmed(title.substr(0, colon), title_blanks);
    std::string name = lower_case(prefix);
    std::replace(name.begin(), name.end(), '_', ' ');
    return options_.namespaces.contains(name) || is_language_code(prefix) ||
        std::binary_search(other_wikis.begin(), other_wikis.end(), name);
  }

  /// The end of the address that begins at `at`; `at` itself if there is none.
  std::size_t end_of_url(std::size_t at) const {
    const std::string_view rest = text_.substr(at);
    constexpr std::size_t longest = 12;
    const std::string head = lower_case(rest.substr(0, longest));
    for (const std::string_view protocol : protocols) {
      if (head.starts_with(protocol)) {
        const std::size_t end =
            std::min(text_.find_first_of(" \t\n[]<>\"\1", at), text_.size());
        return end > at + protocol.size() ? end : at;
      }
    }
    return at;
  }

  std::string_view text_;
  const WikiTextOptions& options_;
  std::string out_;
  std::vector<Open> open_;
  std::size_t too_deep_ = 0;
};

} // namespace

std::string without_links(
    std::string_view text,
    const WikiTextOptions& options) {
  static_assert(std::is_sorted(other_wikis.begin(), other_wikis.end()));
  return LinkRemover(text, options).run();
}

} // namespace cairn::corpus
