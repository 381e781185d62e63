#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace cairn::monitor {

/// The names of functions in this process, by addresses inside of them. The
/// symbols of a program or library are read when the first of its addresses is
/// asked for; a stripped one has those alone that others may call.
class FunctionNames {
 public:
  /// "cairn::nn::Attention::forward", without parameters and template
  /// arguments. A function without a name is "PROGRAM+0x1234"; empty for an
  /// address that is in no program.
  const std::string& of(const void* address);

  /// A demangled name without parameters and template arguments.
  static std::string shortened(const std::string& name);

 private:
  struct Function {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
    std::string name;
  };
  const std::vector<Function>& functions_of(const std::filesystem::path& file);
  std::string find(const void* address);

  std::map<std::string, std::vector<Function>> by_file_;
  std::map<const void*, std::string> found_;
};

/// True for functions between an operator and the code that calls it: those of
/// libtorch and of the C++ library.
bool is_inside_libraries(const std::string& name);

} // namespace cairn::monitor
