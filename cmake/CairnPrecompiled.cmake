# The headers that most files include, parsed once. libtorch's take 3 to 16 seconds a
# file (docs/design/0011-one-build.md has the figures). Files still include what they
# use: without CAIRN_PRECOMPILE, as in the preset dev, each must compile on its own.
# cairn_compile_settings() gives them to every target.

set(_standard <algorithm> <array> <filesystem> <functional> <map> <memory> <optional> <set> <span> <string>
  <string_view> <unordered_map> <utility> <variant> <vector> <fmt/format.h> <fmt/ranges.h>)

if(CAIRN_PRECOMPILE)
  file(WRITE ${PROJECT_BINARY_DIR}/precompiled/empty.cpp "")
  add_library(cairn_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled/empty.cpp)
  target_precompile_headers(cairn_precompiled PRIVATE ${_standard} <nlohmann/json.hpp>)
  target_link_libraries(cairn_precompiled PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
  cairn_warnings(cairn_precompiled)

  add_library(cairn_precompiled_torch OBJECT ${PROJECT_BINARY_DIR}/precompiled/empty.cpp)
  target_precompile_headers(cairn_precompiled_torch PRIVATE ${_standard}
    <ATen/Functions.h> <ATen/TensorOperators.h> <ATen/core/Tensor.h>
    <torch/csrc/autograd/custom_function.h> <torch/nn/module.h>)
  target_link_libraries(cairn_precompiled_torch PRIVATE cairn::torch fmt::fmt)
  cairn_warnings(cairn_precompiled_torch)
endif()
