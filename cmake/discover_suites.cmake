# Writes what ctest reads about a test program: one test for every suite in it. Each
# test of a suite runs in a process of its own, but for those of the suites TOGETHER.
#
#   cmake -D PROGRAM=… -D NAME=… -D SECONDS=… -D TOGETHER=… -D LABELS=… -D OUTPUT=… -P discover_suites.cmake
cmake_policy(SET CMP0057 NEW) # IN_LIST
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE list COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" lines "${list}")
set(suites "")
foreach(line IN LISTS lines)
  if(line MATCHES "^([A-Za-z0-9_/]+)\\.")
    set(suite ${CMAKE_MATCH_1})
    list(APPEND suites ${suite})
    set(tests_${suite} 0)
  elseif(line MATCHES "^  ")
    math(EXPR tests_${suite} "${tests_${suite}} + 1")
  endif()
endforeach()

set(text "")
foreach(suite IN LISTS suites)
  # What takes long starts first: many tests, and those that may take long.
  math(EXPR cost "${tests_${suite}} * ${SECONDS}")
  math(EXPR limit "${tests_${suite}} * ${SECONDS} + 60")
  set(how "[[--each-in-a-child=${suite}.*]] --seconds=${SECONDS}")
  if(suite IN_LIST TOGETHER)
    set(how "[[--gtest_filter=${suite}.*]] --gtest_brief=1")
  endif()
  string(APPEND text "add_test([[${NAME}.${suite}]] [[${PROGRAM}]] ${how})\n"
    "set_tests_properties([[${NAME}.${suite}]] PROPERTIES COST ${cost} TIMEOUT ${limit} SKIP_RETURN_CODE 77 LABELS [[${LABELS}]])\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
