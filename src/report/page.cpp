#include "report/page.h"

#include "base/internal/markup_escaped.h"
#include "report/page_parts.h"

#include <fmt/format.h>

namespace cairn::report {
namespace {

constexpr std::string_view first_lines =
    "<!doctype html>\n"
    "<html lang=\"en\">\n"
    "<head>\n"
    "<meta charset=\"utf-8\">\n"
    "<meta name=\"generator\" content=\"cairn report\">\n";

} // namespace

std::string html_page(std::string_view title, std::string_view data) {
  // The policy loads nothing from elsewhere, whatever a run's values contain.
  return fmt::format(
      "{}"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
      "'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
      "img-src data:; connect-src 'self'; base-uri 'none'; form-action "
      "'none'\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{}</title>\n"
      "<style>\n{}</style>\n"
      "</head>\n"
      "<body>\n"
      "<div id=\"page\"><noscript>The charts are drawn by a script inside "
      "this file, which is turned off here.</noscript></div>\n"
      "<script type=\"application/json\" id=\"data\">{}</script>\n"
      "<script>\n{}</script>\n"
      "</body>\n"
      "</html>\n",
      first_lines,
      markup_escaped(title),
      page_style,
      data,
      page_script);
}

bool is_report_page(std::string_view text) {
  return text.starts_with(first_lines);
}

} // namespace cairn::report
