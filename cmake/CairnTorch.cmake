# The libtorch of the pinned wheels, as imported targets. find_package(Torch) is
# not used: it insists on a CUDA toolkit as soon as the wheel is CUDA-enabled.
#
# Looked for in this order: CAIRN_TORCH_DIR (the folder that contains torch/ and
# nvidia/), the per-user cache that ./cairn fills, python3's own torch.
#
#   cairn::torch        libtorch on the CPU
#   cairn::torch_cuda   its GPU half (only with CAIRN_CUDA)

set(CAIRN_TORCH_VERSION 2.11.0)

if(NOT CAIRN_TORCH_DIR)
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/../dependencies.txt)
    file(SHA256 ${CMAKE_CURRENT_LIST_DIR}/../dependencies.txt _pins)
    string(SUBSTRING ${_pins} 0 16 _pins)
    if(DEFINED ENV{CAIRN_CACHE_DIR})
      set(_cache $ENV{CAIRN_CACHE_DIR})
    elseif(DEFINED ENV{XDG_CACHE_HOME})
      set(_cache $ENV{XDG_CACHE_HOME}/cairn)
    else()
      set(_cache $ENV{HOME}/.cache/cairn)
    endif()
    set(_candidate ${_cache}/wheels-${_pins})
  endif()
  if(NOT EXISTS "${_candidate}/torch/lib/libtorch_cpu.so")
    execute_process(
      COMMAND python3 -c "import torch, os; print(os.path.dirname(os.path.dirname(torch.__file__)))"
      OUTPUT_VARIABLE _candidate OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  if(NOT EXISTS "${_candidate}/torch/lib/libtorch_cpu.so")
    message(FATAL_ERROR
      "libtorch ${CAIRN_TORCH_VERSION} was not found. Run ./cairn once (it downloads the pinned wheels), or pass "
      "-DCAIRN_TORCH_DIR=<folder that contains torch/>, or install torch==${CAIRN_TORCH_VERSION} for python3.")
  endif()
  set(CAIRN_TORCH_DIR ${_candidate} CACHE PATH "Folder that contains torch/ and nvidia/")
endif()

file(STRINGS ${CAIRN_TORCH_DIR}/torch/version.py _version REGEX "__version__")
if(NOT _version MATCHES "'${CAIRN_TORCH_VERSION}[^0-9]")
  message(FATAL_ERROR "${CAIRN_TORCH_DIR} holds another libtorch than ${CAIRN_TORCH_VERSION}: ${_version}")
endif()

set(_lib ${CAIRN_TORCH_DIR}/torch/lib)
set(_include ${CAIRN_TORCH_DIR}/torch/include)
file(GLOB _nvidia ${CAIRN_TORCH_DIR}/nvidia/*/lib)
# torch's own library folder first, then the CUDA run-time libraries it needs even without a GPU.
set(CAIRN_TORCH_RPATH ${_lib} ${_nvidia})
list(APPEND CMAKE_BUILD_RPATH ${CAIRN_TORCH_RPATH})
list(APPEND CMAKE_INSTALL_RPATH ${CAIRN_TORCH_RPATH})
set(_rpath_link "")
foreach(_dir IN LISTS _nvidia)
  list(APPEND _rpath_link "LINKER:-rpath-link,${_dir}")
endforeach()

function(_cairn_torch_library name file)
  if(NOT TARGET cairn_torch_${name})
    add_library(cairn_torch_${name} SHARED IMPORTED GLOBAL)
    set_target_properties(cairn_torch_${name} PROPERTIES
      IMPORTED_LOCATION ${_lib}/${file}
      INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${_include};${_include}/torch/csrc/api/include")
  endif()
endfunction()

_cairn_torch_library(c10 libc10.so)
_cairn_torch_library(cpu libtorch_cpu.so)
if(NOT TARGET cairn::torch)
  add_library(cairn::torch INTERFACE IMPORTED GLOBAL)
  target_link_libraries(cairn::torch INTERFACE cairn_torch_cpu cairn_torch_c10)
  target_compile_definitions(cairn::torch INTERFACE NDEBUG USE_DISTRIBUTED USE_C10D_GLOO)
  target_link_options(cairn::torch INTERFACE ${_rpath_link})
endif()
