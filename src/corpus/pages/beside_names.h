#pragma once

#include <string_view>

namespace cairn::corpus {

/// Whether a class or id of an element, such as "site-footer", says that the
/// element is no part of the page's subject.
bool is_beside_name(std::string_view name);

/// The same for an ARIA role, such as "navigation".
bool is_beside_role(std::string_view role);

} // namespace cairn::corpus
