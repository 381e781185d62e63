#pragma once

#include <string_view>

namespace cairn::http {

/// True for names of this machine, with any port: ssh -L may have changed the
/// port.
bool is_this_machine(std::string_view host);

/// True when a browser's Origin is the page of the server that the Host names,
/// or there is none: other programs send none.
bool is_same_site(std::string_view origin, std::string_view host);

} // namespace cairn::http
