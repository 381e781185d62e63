# The headers that most files include, parsed once. libtorch's take 3 to 16 seconds a
# file (docs/design/0011-one-build.md has the figures). Files still include what they
# use: without CAIRN_PRECOMPILE, as in the preset dev, each must compile on its own.
# cairn_compile_settings() gives them to every target.

set(_standard <algorithm> <array> <filesystem> <functional> <map> <memory> <optional> <set> <span> <string>
  <string_view> <unordered_map> <utility> <variant> <vector> <fmt/format.h> <fmt/ranges.h>)

set(_libtorch <ATen/Functions.h> <ATen/TensorOperators.h> <ATen/core/Tensor.h>
  <torch/csrc/autograd/custom_function.h> <torch/nn/module.h>)

function(_cairn_precompiled name)
  cmake_parse_arguments(arg "" "" "HEADERS;LINK;OPTIONS" ${ARGN})
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/precompiled/empty.cpp)
  target_precompile_headers(${name} PRIVATE ${_standard} ${arg_HEADERS})
  target_link_libraries(${name} PRIVATE fmt::fmt ${arg_LINK})
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
  cairn_warnings(${name})
endfunction()

if(CAIRN_PRECOMPILE)
  file(WRITE ${PROJECT_BINARY_DIR}/precompiled/empty.cpp "")
  _cairn_precompiled(cairn_precompiled HEADERS <nlohmann/json.hpp> LINK nlohmann_json::nlohmann_json)
  _cairn_precompiled(cairn_precompiled_torch HEADERS ${_libtorch} LINK cairn::torch)
  # Tests have their own: they are compiled without optimization, and all include gtest.
  if(CAIRN_TESTS)
    find_package(GTest 1.12 REQUIRED)
    set(_gtest <gtest/gtest.h> <gmock/gmock.h>)
    _cairn_precompiled(cairn_precompiled_tests OPTIONS ${CAIRN_TEST_OPTIONS}
      HEADERS ${_gtest} <nlohmann/json.hpp> LINK GTest::gmock nlohmann_json::nlohmann_json)
    _cairn_precompiled(cairn_precompiled_torch_tests OPTIONS ${CAIRN_TEST_OPTIONS}
      HEADERS ${_gtest} ${_libtorch} LINK GTest::gmock cairn::torch)
  endif()
endif()
