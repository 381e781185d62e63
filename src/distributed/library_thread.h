#pragma once

#include <functional>
#include <memory>
#include <string>

namespace cairn::distributed {

/// Told what a library's thread died of; kept alive by its owner.
using LibraryThreadListener = std::function<void(const std::string& text)>;

/// Gloo throws in a thread of its own when ranks bring different sizes, and no
/// handler can be put there: the process would abort before anyone could say
/// which ranks disagree. C++ offers one hook, std::set_terminate, for the whole
/// process. Through it such a thread is halted for good instead, and the
/// listeners are told; any other reason to terminate goes its usual way.
void on_library_thread_death(
    const std::shared_ptr<LibraryThreadListener>& listener);

} // namespace cairn::distributed
