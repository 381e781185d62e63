#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace cairn::corpus {

struct PageText {
  std::string title;
  std::string text;
};

/// Thrown for bytes that are no text.
struct NoText : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Whether a page of this type can be read: HTML, XHTML and plain text. Without
/// a type, what begins like HTML can.
bool is_readable_type(std::string_view content_type);

/// The title and main text of a page, from the bytes and the Content-Type that
/// the server sent. Throws NoText.
PageText page_text(std::string_view bytes, std::string_view content_type);

} // namespace cairn::corpus
