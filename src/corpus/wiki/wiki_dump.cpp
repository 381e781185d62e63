#include "corpus/internal/wiki_dump.h"

#include "base/internal/ascii_case.h"
#include "base/internal/thread_pool.h"
#include "corpus/clean/standard_punctuation.h"
#include "corpus/clean/unicode.h"
#include "corpus/output/json_text.h"
#include "corpus/output/numbered_files.h"
#include "corpus/output/ordered_work.h"
#include "corpus/wiki/character_reference.h"
#include "corpus/wiki/wiki_page.h"
#include "corpus/wiki/wiki_page_reader.h"
#include "corpus/wiki/wiki_text.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::corpus {
namespace {

/// The articles of some pages, one line each, and counts of all pages.
struct Extract {
  std::vector<std::string> lines;
  WikiDumpReport counts;
};

class PageExtractor {
 public:
  PageExtractor(const WikiDumpOptions& options, const WikiSite& site)
      : options_(options),
        address_(site.base.substr(0, site.base.rfind('/')) + "?curid="),
        text_{.lists = options.lists, .html_safe = options.html_safe} {
    for (const char* name :
         {"category",
          "draft",
          "file",
          "help",
          "image",
          "mediawiki",
          "module",
          "portal",
          "project",
          "special",
          "talk",
          "template",
          "user",
          "wikipedia",
          "wp"}) {
      text_.namespaces.insert(name);
    }
    for (const std::string& name : site.namespaces) {
      text_.namespaces.insert(lower_case(name));
    }
  }

  Extract operator()(const std::string& xml) const {
    Extract extract;
    std::size_t at = 0;
    while ((at = xml.find("<page>", at)) != std::string::npos) {
      const std::size_t begin = at + std::string_view("<page>").size();
      const std::size_t end = xml.find("</page>", begin);
      add(WikiPage::from(std::string_view(xml).substr(begin, end - begin)),
          extract);
      at = end;
    }
    return extract;
  }

 private:
  void add(const WikiPage& page, Extract& extract) const {
    WikiDumpReport& counts = extract.counts;
    ++counts.pages;
    if (std::find(
            options_.namespaces.begin(),
            options_.namespaces.end(),
            page.ns) == options_.namespaces.end()) {
      ++counts.other_namespaces;
      return;
    }
    if (page.redirect) {
      ++counts.redirects;
      return;
    }
    if (!page.wikitext) {
      ++counts.other_content;
      return;
    }
    std::string text = wiki_text(decode_references(page.text), text_);
    if (options_.standardize_punctuation) {
      text = standard_punctuation(text);
    }
    if (text.empty()) {
      ++counts.without_text;
      return;
    }
    ++counts.articles;
    counts.markup_bytes += page.text.size();
    counts.text_bytes += text.size();
    std::string line = "{\"id\": ";
    append_json_string(line, printable(page.id));
    line += ", \"revid\": ";
    append_json_string(line, printable(page.revision));
    line += ", \"url\": ";
    append_json_string(line, printable(address_ + page.id));
    line += ", \"title\": ";
    append_json_string(line, printable(page.title));
    line += ", \"text\": ";
    append_json_string(line, text);
    line += "}\n";
    extract.lines.push_back(std::move(line));
  }

  const WikiDumpOptions& options_;
  std::string address_;
  WikiTextOptions text_;
};

void add_counts(WikiDumpReport& sum, const WikiDumpReport& more) {
  sum.pages += more.pages;
  sum.articles += more.articles;
  sum.redirects += more.redirects;
  sum.other_namespaces += more.other_namespaces;
  sum.other_content += more.other_content;
  sum.without_text += more.without_text;
  sum.markup_bytes += more.markup_bytes;
  sum.text_bytes += more.text_bytes;
}

} // namespace

WikiDumpReport extract_wiki_dump(
    const WikiDumpOptions& options,
    const Logger& log) {
  WikiPageReader reader(options.input, options.largest_page);
  const PageExtractor extractor(options, WikiSite::from(reader.head()));
  NumberedFiles output(options.output, options.bytes_per_file);
  WikiDumpReport report;

  std::uint64_t told = 0;
  const auto next = [&]() -> std::optional<std::string> {
    std::string pages;
    if (!reader.next(pages)) {
      return std::nullopt;
    }
    if (options.on_progress) {
      const std::uint64_t position = reader.stream().stored_position();
      options.on_progress(position - std::exchange(told, position));
    }
    return pages;
  };
  const auto take = [&](Extract extract) {
    for (const std::string& line : extract.lines) {
      output.write_line(line);
    }
    add_counts(report, extract.counts);
    return true;
  };
  ThreadPool pool(options.workers);
  ordered_work(
      pool,
      (options.workers * 2 + 1) * WikiPageReader::stretch,
      next,
      [](const std::string& pages) { return pages.size(); },
      extractor,
      take);
  report.too_large = reader.too_large();
  report.pages += report.too_large;
  if (!reader.complete()) {
    log.warning(
        "{}: ends without </mediawiki>: pages may be missing",
        options.input.string());
  }
  output.commit();
  return report;
}

} // namespace cairn::corpus
