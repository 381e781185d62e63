# cairn_library(NAME SOURCES … [HEADERS …] [PUBLIC …] [PRIVATE …] [TORCH] [COLD]
#   [PROGRAM] [GPU … WITHOUT_GPU …])
#
# One folder under src/ is one static library cairn_NAME, exported as cairn::NAME.
# HEADERS are its public ones, relative to include/cairn/NAME. PUBLIC and PRIVATE
# are the libraries it links. TORCH marks folders whose files include libtorch. COLD
# marks those without a loop that counts: -O1 compiles them in two thirds of the time.
# PROGRAM marks those that serve the programs alone: they are not installed.
#
# GPU and WITHOUT_GPU are twins: they define the same functions. WITHOUT_GPU belongs
# to cairn_NAME. GPU becomes cairn_NAME_gpu, which cairn::gpu collects. A program that
# links cairn::gpu has the GPU's definitions before it looks into the archives, so the
# linker never takes the twin: one set of objects serves programs with and without GPU.
function(cairn_library name)
  cmake_parse_arguments(arg "TORCH;COLD;PROGRAM" "" "SOURCES;HEADERS;PUBLIC;PRIVATE;GPU;WITHOUT_GPU" ${ARGN})
  set(target cairn_${name})
  add_library(${target} STATIC ${arg_SOURCES} ${arg_WITHOUT_GPU})
  # The linker leaves out whole archive members only: a twin must be one of its own.
  set_source_files_properties(${arg_WITHOUT_GPU} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  add_library(cairn::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  list(TRANSFORM arg_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/cairn/${name}/)
  target_sources(${target} PUBLIC FILE_SET HEADERS
    BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${arg_HEADERS})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  if(arg_TORCH)
    target_link_libraries(${target} PUBLIC cairn::torch)
    cairn_compile_settings(${target} TORCH)
    # Half a minute for each header that includes libtorch: whether it stands on
    # its own shows in its .cpp, which includes it first.
    set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS OFF)
  else()
    cairn_compile_settings(${target})
  endif()
  if(arg_COLD)
    cairn_cold(${target})
  endif()
  if(NOT arg_PROGRAM)
    install(TARGETS ${target} EXPORT cairn FILE_SET HEADERS)
  endif()
  if(arg_GPU AND CAIRN_CUDA)
    cairn_gpu_library(${name} ${arg_GPU})
  endif()
endfunction()

function(cairn_gpu_library name)
  set(target cairn_${name}_gpu)
  add_library(${target} STATIC ${ARGN})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name}_gpu)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PUBLIC cairn_${name} cairn::torch_cuda)
  cairn_compile_settings(${target} TORCH)
  set_property(GLOBAL APPEND PROPERTY CAIRN_GPU_LIBRARIES ${target})
  install(TARGETS ${target} EXPORT cairn)
endfunction()

# cairn_collect_gpu(): cairn::gpu, all GPU twins. They stand whole and first on the link
# line, among the options: what they define, no linker looks for in an archive.
function(cairn_collect_gpu)
  get_property(libraries GLOBAL PROPERTY CAIRN_GPU_LIBRARIES)
  add_library(cairn_gpu INTERFACE)
  add_library(cairn::gpu ALIAS cairn_gpu)
  set_target_properties(cairn_gpu PROPERTIES EXPORT_NAME gpu)
  target_link_libraries(cairn_gpu INTERFACE ${libraries})
  list(TRANSFORM libraries REPLACE ".+" "$<TARGET_FILE:$<TARGET_NAME:\\0>>" OUTPUT_VARIABLE files)
  list(JOIN files "," files)
  target_link_options(cairn_gpu INTERFACE "LINKER:--whole-archive,${files},--no-whole-archive")
  install(TARGETS cairn_gpu EXPORT cairn)
endfunction()

# cairn_compile_settings(TARGET [TORCH] [TEST])
#
# What every target of ours is compiled with: warnings, the precompiled headers and,
# for those that include libtorch, as many files at once as there is memory for.
function(cairn_compile_settings target)
  cmake_parse_arguments(arg "TORCH;TEST" "" "" ${ARGN})
  cairn_warnings(${target})
  set(precompiled cairn_precompiled)
  if(arg_TORCH)
    set_target_properties(${target} PROPERTIES JOB_POOL_COMPILE torch_compile)
    set(precompiled cairn_precompiled_torch)
  endif()
  if(arg_TEST)
    target_compile_options(${target} PRIVATE ${CAIRN_TEST_OPTIONS})
    string(APPEND precompiled _tests)
  endif()
  if(CAIRN_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${precompiled})
  endif()
endfunction()

# g++ 13 turns this on with -O2, and a precompiled header fits only where it is the same.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-munroll-only-small-loops CAIRN_UNROLL_FLAG)

set(CAIRN_COLD_OPTIONS $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<CONFIG:Debug>>>:-O1>)
if(CAIRN_UNROLL_FLAG)
  list(APPEND CAIRN_COLD_OPTIONS $<$<COMPILE_LANGUAGE:CXX>:-munroll-only-small-loops>)
endif()

function(cairn_cold target)
  target_compile_options(${target} PRIVATE ${CAIRN_COLD_OPTIONS})
endfunction()

function(cairn_warnings target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers>)
  if(CAIRN_WERROR)
    # GCC's guesses about memory depend on what it inlines: they stay warnings.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Werror
      -Wno-error=array-bounds -Wno-error=invalid-pch -Wno-error=maybe-uninitialized
      -Wno-error=restrict -Wno-error=stringop-overflow -Wno-error=stringop-overread>)
  endif()
endfunction()

# cairn_test(NAME SOURCES … LINK … [TORCH] [LABELS …] [TIMEOUT seconds] [TOGETHER suites])
#
# One test binary per folder. Every suite in it is a test of ctest's, which runs each of
# the suite's tests in a process of its own (tests/support/test_main.cpp); TIMEOUT is how
# long one of them may take. The suites TOGETHER share what takes long to compute, so
# their tests run in one process.
function(cairn_test name)
  cmake_parse_arguments(arg "TORCH" "TIMEOUT" "SOURCES;LINK;LABELS;TOGETHER" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINK})
  cairn_test_settings(${name} ${arg_TORCH})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  set(suites ${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake)
  set(discover ${PROJECT_SOURCE_DIR}/cmake/discover_suites.cmake)
  add_custom_command(TARGET ${name} POST_BUILD VERBATIM BYPRODUCTS ${suites}
    COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${name}> -D NAME=${name} -D SECONDS=${arg_TIMEOUT}
      -D "TOGETHER=${arg_TOGETHER}" -D "LABELS=${arg_LABELS}" -D OUTPUT=${suites} -P ${discover})
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}_include.cmake @ONLY CONTENT
    "if(EXISTS [[@suites@]])\n  include([[@suites@]])\nelse()\n  add_test(@name@_NOT_BUILT @name@_NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}_include.cmake)
endfunction()

# Tests are compiled without optimization: what they test is optimized. And what is under
# test is checked for undefined behaviour; checking gtest's macros as well takes three
# times as long to compile.
set(CAIRN_TEST_OPTIONS -O0)
if(CAIRN_SANITIZE MATCHES undefined)
  list(APPEND CAIRN_TEST_OPTIONS -fno-sanitize=undefined)
endif()

function(cairn_test_settings name torch)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE GTest::gmock cairn_test_main)
  target_compile_definitions(${name} PRIVATE
    CAIRN_GOLDEN_DIR="${PROJECT_SOURCE_DIR}/tests/golden"
    CAIRN_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    CAIRN_BINARY_DIR="${PROJECT_BINARY_DIR}")
  if(torch)
    cairn_compile_settings(${name} TORCH TEST)
  else()
    cairn_compile_settings(${name} TEST)
  endif()
endfunction()

# cairn_gpu_tests(SOURCES … LINK …)
#
# Tests that need a GPU. Those of all folders are one program, gpu_test, which exists
# with CAIRN_CUDA only.
function(cairn_gpu_tests)
  if(NOT CAIRN_CUDA)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  target_sources(gpu_test PRIVATE ${arg_SOURCES})
  target_link_libraries(gpu_test PRIVATE ${arg_LINK})
endfunction()
