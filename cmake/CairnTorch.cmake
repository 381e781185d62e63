# The libtorch of the pinned wheels, as imported targets. find_package(Torch) is
# not used: it insists on a CUDA toolkit as soon as the wheel is CUDA-enabled.
#
# Looked for in this order: CAIRN_TORCH_DIR (the folder that contains torch/ and
# nvidia/), the per-user cache that ./cairn fills, the torch of Python_EXECUTABLE or python3.
#
#   cairn::torch        libtorch on the CPU
#   cairn::torch_cuda   its GPU half (only with CAIRN_CUDA; cairn::gpu links it)

set(CAIRN_TORCH_VERSION 2.11.0)

if(NOT CAIRN_TORCH_DIR)
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/../dependencies.txt)
    file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../dependencies.txt _wheels REGEX "^(wheel|gpu|nvcc) ")
    list(JOIN _wheels "\n" _wheels)
    string(SHA256 _pins "${_wheels}\n")
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
    if(Python_EXECUTABLE)
      set(_python ${Python_EXECUTABLE})
    else()
      set(_python python3)
    endif()
    execute_process(
      COMMAND ${_python} -c "import torch, os; print(os.path.dirname(os.path.dirname(torch.__file__)))"
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
    set_target_properties(cairn_torch_${name} PROPERTIES IMPORTED_LOCATION ${_lib}/${file})
  endif()
endfunction()

_cairn_torch_library(c10 libc10.so)
_cairn_torch_library(cpu libtorch_cpu.so)
if(NOT TARGET cairn::torch)
  add_library(cairn::torch INTERFACE IMPORTED GLOBAL)
  target_link_libraries(cairn::torch INTERFACE cairn_torch_cpu cairn_torch_c10)
  target_compile_definitions(cairn::torch INTERFACE NDEBUG USE_DISTRIBUTED USE_C10D_GLOO)
  # After the system's folders: the wheel brings a fmt of its own, another than
  # the one we link.
  target_compile_options(cairn::torch INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-idirafter \"${_include}\">"
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-idirafter \"${_include}/torch/csrc/api/include\">")
  target_link_options(cairn::torch INTERFACE ${_rpath_link})
endif()

if(CAIRN_CUDA AND NOT TARGET cairn::torch_cuda)
  # Headers and libcudart from a toolkit, or from the wheels where there is none.
  file(GLOB _wheel_includes ${CAIRN_TORCH_DIR}/nvidia/*/include)
  set(_toolkits $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda)
  find_path(CAIRN_CUDA_INCLUDE cuda_runtime_api.h
    HINTS ${_toolkits} ${_wheel_includes} PATH_SUFFIXES include)
  find_path(CAIRN_NCCL_INCLUDE nccl.h HINTS ${_wheel_includes} ${_toolkits} PATH_SUFFIXES include)
  find_library(CAIRN_CUDART NAMES cudart libcudart.so.13
    HINTS ${_nvidia} ${_toolkits} PATH_SUFFIXES lib64 lib)
  foreach(_part IN ITEMS CAIRN_CUDA_INCLUDE CAIRN_NCCL_INCLUDE CAIRN_CUDART)
    if(NOT ${_part})
      message(FATAL_ERROR
        "${_part} was not found: the GPU parts need the headers of CUDA 13 and NCCL and libcudart. Install a CUDA "
        "toolkit (CUDA_HOME names another place than /usr/local/cuda), or the gpu wheels that dependencies.txt lists.")
    endif()
  endforeach()
  _cairn_torch_library(cuda libtorch_cuda.so)
  _cairn_torch_library(c10_cuda libc10_cuda.so)
  add_library(cairn::torch_cuda INTERFACE IMPORTED GLOBAL)
  target_include_directories(cairn::torch_cuda INTERFACE
    ${CAIRN_CUDA_INCLUDE} ${CAIRN_NCCL_INCLUDE} ${_wheel_includes})
  target_compile_definitions(cairn::torch_cuda INTERFACE USE_C10D_NCCL)
  target_link_libraries(cairn::torch_cuda INTERFACE cairn_torch_cuda cairn_torch_c10_cuda ${CAIRN_CUDART} cairn::torch)
  # The wheel's GPU half names libraries (cuDNN, NCCL, …) that need not be there to link.
  target_link_options(cairn::torch_cuda INTERFACE
    LINKER:--unresolved-symbols=ignore-in-shared-libs LINKER:--no-as-needed)
endif()

# Whether a GPU program could start here: the libraries that libtorch's GPU half loads
# are beside it.
if(CAIRN_CUDA AND EXISTS ${CAIRN_TORCH_DIR}/nvidia/cudnn/lib AND EXISTS ${CAIRN_TORCH_DIR}/nvidia/nccl/lib)
  set(CAIRN_CUDA_RUNS ON)
else()
  set(CAIRN_CUDA_RUNS OFF)
endif()
