# Builds for another architecture of Debian, with Debian's cross compiler. tools/cross_setup.sh
# fetches what this names: CAIRN_ARCH, such as aarch64; CAIRN_SYSROOT, a folder with that
# architecture's packages; CAIRN_TORCH_DIR, its libtorch; CAIRN_NVCC, which runs on this machine.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CAIRN_ARCH CAIRN_SYSROOT CAIRN_TORCH_DIR CAIRN_NVCC)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CAIRN_ARCH})
set(CMAKE_LIBRARY_ARCHITECTURE ${CAIRN_ARCH}-linux-gnu)
string(REPLACE "_" "-" _compiler ${CMAKE_LIBRARY_ARCHITECTURE}-g++-12)
set(CMAKE_CXX_COMPILER ${_compiler})
set(CMAKE_SYSROOT ${CAIRN_SYSROOT})

# nvcc looks for headers and libraries of the other architecture in its toolkit, where only those
# of this machine are. Headers are the same for all, and the libraries are beside libtorch.
set(CMAKE_CUDA_HOST_COMPILER ${_compiler})
file(GLOB _runtime ${CAIRN_TORCH_DIR}/nvidia/*/lib/libcudart_static.a)
list(GET _runtime 0 _runtime)
get_filename_component(_runtime ${_runtime} DIRECTORY)
get_filename_component(_toolkit ${CAIRN_NVCC} REALPATH)
get_filename_component(_toolkit ${_toolkit}/../../include REALPATH)
set(CMAKE_CUDA_FLAGS_INIT "-isystem ${_toolkit} -isystem ${_toolkit}/cccl -L${_runtime}")
set(CAIRN_CUDART ${_runtime}/libcudart.so.13 CACHE FILEPATH "The CUDA runtime that programs load")

# Programs are those of this machine.
set(CMAKE_FIND_ROOT_PATH ${CAIRN_SYSROOT} ${CAIRN_TORCH_DIR} $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
