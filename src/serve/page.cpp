#include "serve/page.h"

#include "serve/page_text.h"

namespace cairn::serve {

std::string_view page_html() {
  return page_text;
}

} // namespace cairn::serve
