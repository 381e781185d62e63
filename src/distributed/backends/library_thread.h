#pragma once

#include <functional>
#include <memory>
#include <string>

namespace cairn::distributed {

/// A function that gets the error that killed a library's thread. Its owner
/// keeps it alive.
using LibraryThreadListener = std::function<void(const std::string& text)>;

/// Calls `listener` when a thread of Gloo dies of an exception. Gloo throws in
/// a thread of its own when ranks bring different sizes, and no handler can be
/// put there: the process would abort before anyone could say which ranks
/// disagree. C++ offers one hook, std::set_terminate, for the whole process.
/// Through that hook the thread is halted for good instead, and the listeners
/// are told; any other reason to terminate goes its usual way.
void on_library_thread_death(
    const std::shared_ptr<LibraryThreadListener>& listener);

} // namespace cairn::distributed
