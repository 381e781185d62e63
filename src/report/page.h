#pragma once

#include <string>
#include <string_view>

namespace cairn::report {

/// The whole page: style, script and `data` (from page_data()) in one file that
/// needs nothing else.
std::string html_page(std::string_view title, std::string_view data);

/// True when the text begins as such a page does.
bool is_report_page(std::string_view text);

} // namespace cairn::report
