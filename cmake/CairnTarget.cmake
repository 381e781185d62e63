# cairn_library(NAME SOURCES … [HEADERS …] [PUBLIC …] [PRIVATE …] [TORCH])
#
# One folder under src/ is one static library cairn_NAME, exported as cairn::NAME.
# HEADERS are its public ones, relative to include/cairn/NAME. PUBLIC and PRIVATE
# are the libraries it links. TORCH marks folders whose files include libtorch.
function(cairn_library name)
  cmake_parse_arguments(arg "TORCH" "" "SOURCES;HEADERS;PUBLIC;PRIVATE" ${ARGN})
  set(target cairn_${name})
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(cairn::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  list(TRANSFORM arg_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/cairn/${name}/)
  target_sources(${target} PUBLIC FILE_SET HEADERS
    BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${arg_HEADERS})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  cairn_compile_settings(${target})
  if(arg_TORCH)
    target_link_libraries(${target} PUBLIC cairn::torch)
    # Half a minute for each header that includes libtorch: whether it stands on
    # its own shows in its .cpp, which includes it first.
    set_target_properties(${target} PROPERTIES
      JOB_POOL_COMPILE torch_compile VERIFY_INTERFACE_HEADER_SETS OFF)
  endif()
  install(TARGETS ${target} EXPORT cairn FILE_SET HEADERS)
endfunction()

function(cairn_compile_settings target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers>)
  if(CAIRN_WERROR)
    # GCC's guesses about what may be uninitialized depend on what it inlines.
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-Werror -Wno-error=maybe-uninitialized>)
  endif()
endfunction()

# cairn_test(NAME SOURCES … LINK … [LABELS …] [TIMEOUT seconds])
#
# One test binary per folder; every TEST in it is a test of ctest's.
function(cairn_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${arg_LINK} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    CAIRN_GOLDEN_DIR="${PROJECT_SOURCE_DIR}/tests/golden"
    CAIRN_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    CAIRN_BINARY_DIR="${PROJECT_BINARY_DIR}")
  cairn_compile_settings(${name})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  # A GPU build is made on machines where it cannot start: ask it for its tests
  # when they are to be run, not when it was linked.
  set(_discover POST_BUILD)
  if(CAIRN_CUDA)
    set(_discover PRE_TEST)
  endif()
  gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60 DISCOVERY_MODE ${_discover}
    PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}")
endfunction()
