#pragma once

#include <string_view>

namespace cairn::corpus {

/// ICU's name of the encoding that a page means by `label`, such as "latin1";
/// empty when it is none that pages may have.
std::string_view converter_for(std::string_view label);

} // namespace cairn::corpus
