# What can be chosen when configuring, and the compiler settings that follow from it.
option(CAIRN_TESTS "Build the tests" ON)
# `pip install .` builds the GPU parts where tools/setup.sh does: as CAIRN_GPU says, or where a
# GPU is. Others say what they want.
set(_gpu OFF)
if(SKBUILD AND NOT "$ENV{CAIRN_GPU}" STREQUAL "")
  string(COMPARE NOTEQUAL "$ENV{CAIRN_GPU}" "0" _gpu)
elseif(SKBUILD AND EXISTS /dev/nvidiactl)
  set(_gpu ON)
endif()
option(CAIRN_CUDA "Also build the GPU parts: cairn-cuda, cairn::gpu, gpu_test" ${_gpu})
option(CAIRN_PYTHON "Build the Python package: build/<preset>/python/cairn" OFF)
option(CAIRN_WERROR "Treat warnings in our own code as errors (on under CI)" $ENV{CI})
option(CAIRN_PRECOMPILE "Parse the most used headers once, for faster builds" OFF)
set(CAIRN_SANITIZE "" CACHE STRING "Sanitizers for our own code, e.g. address,undefined")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# Programs too, which need no more than -fPIE: with the same flag everywhere, all can
# share the precompiled headers.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fPIC> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fPIC>)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
# libtorch's headers change class layouts with NDEBUG, and the wheel was built with it.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g -DNDEBUG")

# GCC collects garbage from 128 MB on, which takes a sixth of the time of a file with
# libtorch. From 1 GB on it takes none, for 7% more memory (docs/design/0011-one-build.md).
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1048576>)
endif()

find_program(CAIRN_CCACHE ccache)
if(CAIRN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without these ccache does not serve files with precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${CAIRN_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CAIRN_CCACHE})
endif()

find_program(CAIRN_MOLD mold)
if(CAIRN_MOLD AND NOT CMAKE_CROSSCOMPILING) # a cross compiler looks for linkers of its own
  add_link_options(-fuse-ld=mold)
endif()

# A file that includes libtorch takes up to 3 GB to compile: as many at once as
# there is memory for.
cmake_host_system_information(RESULT _memory_mb QUERY TOTAL_PHYSICAL_MEMORY)
cmake_host_system_information(RESULT _cores QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR _torch_jobs "${_memory_mb} / 4096")
if(_torch_jobs GREATER _cores)
  set(_torch_jobs ${_cores})
elseif(_torch_jobs LESS 1)
  set(_torch_jobs 1)
endif()
set_property(GLOBAL APPEND PROPERTY JOB_POOLS torch_compile=${_torch_jobs})

# g++ instantiates libtorch's templates for four to six seconds in each file that includes
# them, precompiled or not. With few cores larger unity files are faster: two of 16 sources
# take 50 s, one of 32 takes 37 s. The large size is a multiple of the small one, so what is
# together in a small file is together in a large one: two sources whose names clash on any
# machine also clash on one with few cores.
if(CMAKE_UNITY_BUILD AND _cores LESS_EQUAL 4)
  math(EXPR CMAKE_UNITY_BUILD_BATCH_SIZE "3 * ${CMAKE_UNITY_BUILD_BATCH_SIZE}")
endif()

if(CAIRN_SANITIZE)
  # -O1 as the sanitizers' authors advise: traces are whole, and it compiles sooner.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1 -DNDEBUG")
  add_compile_options(-fsanitize=${CAIRN_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${CAIRN_SANITIZE})
endif()
