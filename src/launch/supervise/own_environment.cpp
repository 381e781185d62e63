#include "launch/supervise/own_environment.h"

#include "base/internal/error_handover.h"
#include "base/internal/terminal.h"
#include "launch/supervise/process_sweep.h"

#include <unistd.h>

#include <map>
#include <string_view>

namespace cairn::launch {

std::vector<std::string> own_environment(const Variables& changes) {
  std::map<std::string, std::string, std::less<>> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=', 1);
    if (equals != std::string_view::npos) {
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  // These were lent to us only.
  variables.erase(lent_terminal_variable);
  variables.erase(error_memory_variable);
  for (const auto& [name, value] : changes) {
    variables.insert_or_assign(name, value);
  }
  // A launcher that runs as a rank of another job gives its own ranks a new id.
  variables.erase(launch_id_variable);
  std::vector<std::string> result;
  for (const auto& [name, value] : variables) {
    result.push_back(name + "=" + value);
  }
  return result;
}

} // namespace cairn::launch
