#include "corpus/wiki/wiki_markup.h"

#include <algorithm>

namespace cairn::corpus {
namespace {

class TemplateRemover {
 public:
  explicit TemplateRemover(std::string_view text) : text_(text) {
    out_.reserve(text.size());
  }

  std::string run() {
    std::size_t at = 0;
    while (at < text_.size()) {
      const std::size_t next =
          std::min(text_.find_first_of("{}|", at), text_.size());
      out_.append(text_, at, next - at);
      at = next < text_.size() ? after_mark(next) : next;
    }
    return tables_ > 0 ? without_first_lines() : std::move(out_);
  }

 private:
  struct Open {
    bool table;
    std::size_t braces; ///< unclosed braces of a template
    std::size_t start;  ///< in the output
  };

  std::size_t run_length(std::size_t at, char c) const {
    const std::size_t end =
        std::min(text_.find_first_not_of(c, at), text_.size());
    return end - at;
  }

  bool begins_line() const {
    constexpr std::size_t deepest_indent = 64; // keeps this constant in time
    const std::size_t from =
        out_.size() - std::min(out_.size(), deepest_indent);
    const std::string_view end = std::string_view(out_).substr(from);
    const std::size_t last = end.find_last_not_of(" :");
    return last == std::string_view::npos ? from == 0 : end[last] == '\n';
  }

  /// True when "{|" opens a table: always at the beginning of a line; elsewhere
  /// if attributes or nothing follow on its line. Otherwise it may be a
  /// formula.
  bool opens_table(std::size_t at) const {
    constexpr std::size_t glance = 256; // keeps this constant in time
    if (!text_.substr(at).starts_with("{|")) {
      return false;
    }
    std::string_view rest = text_.substr(at + 2, glance);
    rest = rest.substr(0, rest.find('\n'));
    return begins_line() || rest.find('=') != rest.npos ||
        rest.find_first_not_of(' ') == rest.npos;
  }

  std::size_t after_mark(std::size_t at) {
    if (text_[at] == '{') {
      const std::size_t braces = run_length(at, '{');
      if (braces == 1 && opens_table(at)) {
        open_.push_back({true, 0, out_.size()});
        ++tables_;
        out_ += "{|";
        return at + 2;
      }
      if (braces >= 2) {
        open_.push_back({false, braces, out_.size()});
        ++templates_;
      }
      out_.append(braces, '{');
      return at + braces;
    }
    if (text_[at] == '|') {
      const std::size_t braces = run_length(at + 1, '}');
      // "|}}" is an empty parameter and the end of a template.
      if (tables_ > 0 && braces > 0 && braces != 2 &&
          (braces == 1 || begins_line())) {
        close_table();
        return at + 2;
      }
      out_ += '|';
      return at + 1;
    }
    const std::size_t braces = run_length(at, '}');
    out_.append(close_templates(braces), '}');
    return at + braces;
  }

  /// The output without the first line, mark and attributes, of tables that
  /// were never closed. Their rows look like rows and are removed with the
  /// other lines.
  std::string without_first_lines() const {
    std::string out;
    std::size_t at = 0;
    for (const Open& each : open_) {
      if (each.table && each.start >= at) {
        out.append(out_, at, each.start - at);
        at = std::min(out_.find('\n', each.start), out_.size());
      }
    }
    return out.append(out_, at);
  }

  void pop() {
    --(open_.back().table ? tables_ : templates_);
    open_.pop_back();
  }

  void close_table() {
    while (!open_.back().table) {
      pop();
    }
    out_.resize(open_.back().start);
    pop();
  }

  /// Closes templates; returns the number of braces that close nothing.
  std::size_t close_templates(std::size_t braces) {
    while (braces >= 2 && templates_ > 0) {
      while (open_.back().table) {
        pop();
      }
      Open& last = open_.back();
      const std::size_t used = std::min({last.braces, braces, std::size_t{3}});
      braces -= used;
      last.braces -= used;
      if (last.braces < 2) {
        out_.resize(last.start);
        pop();
      }
    }
    return braces;
  }

  std::string_view text_;
  std::string out_;
  std::vector<Open> open_;
  std::size_t tables_ = 0;
  std::size_t templates_ = 0;
};

} // namespace

std::string without_templates(std::string_view text) {
  return TemplateRemover(text).run();
}

} // namespace cairn::corpus
