#pragma once

#include <string>
#include <vector>

namespace cairn::testing {

/// Runs a script of tools/ with Python: that of the environment's CAIRN_PYTHON,
/// or python3. Fails the test if the script fails; skips it without Python, or
/// if the script lacks a package (its exit code is 77 then).
void run_python_tool(
    const std::string& script,
    const std::vector<std::string>& arguments);

} // namespace cairn::testing
