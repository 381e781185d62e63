#include "distributed/backends/library_thread.h"

#include "distributed/backends/library_text.h"

#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string_view>
#include <typeinfo>
#include <vector>

namespace cairn::distributed {
namespace {

struct Hook {
  std::mutex mutex;
  std::terminate_handler previous = nullptr;
  std::vector<std::weak_ptr<LibraryThreadListener>> listeners;
};

/// The only hook. Never destroyed: a library's thread may outlive main().
Hook& hook() {
  static Hook& only = *new Hook;
  return only;
}

bool thrown_by_gloo() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  // The mangled names of everything in namespace gloo begin with this.
  return type && std::string_view(type->name()).starts_with("N4gloo");
}

std::string current_text() {
  try {
    throw;
  } catch (const std::exception& error) {
    return library_text(error);
  } catch (...) {
    return "no reason given";
  }
}

bool tell_listeners() {
  std::vector<std::shared_ptr<LibraryThreadListener>> alive;
  {
    const std::lock_guard lock(hook().mutex);
    for (const auto& weak : hook().listeners) {
      if (auto listener = weak.lock()) {
        alive.push_back(std::move(listener));
      }
    }
  }
  const std::string text = current_text();
  for (const auto& listener : alive) {
    (*listener)(text);
  }
  return !alive.empty();
}

[[noreturn]] void terminate_or_halt() {
  if (thrown_by_gloo() && tell_listeners()) {
    for (;;) {
      ::pause();
    }
  }
  if (const auto previous = hook().previous) {
    previous();
  }
  std::abort();
}

} // namespace

void on_library_thread_death(
    const std::shared_ptr<LibraryThreadListener>& listener) {
  Hook& shared = hook();
  const std::lock_guard lock(shared.mutex);
  if (std::get_terminate() != terminate_or_halt) {
    shared.previous = std::set_terminate(terminate_or_halt);
  }
  std::erase_if(shared.listeners, [](const auto& weak) {
    return weak.expired();
  });
  shared.listeners.push_back(listener);
}

} // namespace cairn::distributed
