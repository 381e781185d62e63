#pragma once

#include <string>
#include <string_view>

namespace cairn::corpus {

/// `bytes` as UTF-8 with "\n" as line end and without control characters. The
/// encoding is that of a byte order mark, else `declared` (in the answer's
/// head), else that of a <meta> tag at the beginning; without any it is UTF-8,
/// or Windows-1252 when the bytes are no UTF-8. What is said to be Windows-1252
/// and is UTF-8 is taken for UTF-8. Broken sequences become U+FFFD.
std::string decode_page(std::string_view bytes, std::string_view declared);

} // namespace cairn::corpus
