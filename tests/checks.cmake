# Checks of the tree as a whole, as tests: formatting, globals, includes, layering, links.
foreach(check IN ITEMS format globals includes layering links)
  add_test(NAME tree.${check} COMMAND ${PROJECT_SOURCE_DIR}/tools/check_${check}.py)
  set_tests_properties(tree.${check} PROPERTIES LABELS "whole-tree;no-torch")
endforeach()

# Tables that are made of a GPU's traces.
add_test(NAME tree.overlap COMMAND ${PROJECT_SOURCE_DIR}/tests/tools/overlap_test.py)
set_tests_properties(tree.overlap PROPERTIES LABELS "whole-tree;no-torch")

# The real program under kills, stops, broken disks and flipped bits: one case of each kind.
add_test(NAME tree.drills COMMAND ${PROJECT_SOURCE_DIR}/tools/drills/run.py --build ${PROJECT_BINARY_DIR})
set_tests_properties(tree.drills PROPERTIES LABELS whole-tree PROCESSORS 2 TIMEOUT 900)

add_test(NAME tree.setup COMMAND ${PROJECT_SOURCE_DIR}/tests/tools/setup_test.sh)
add_test(NAME tree.consumer COMMAND ${PROJECT_SOURCE_DIR}/tools/check_consumer.sh ${PROJECT_BINARY_DIR})
set_tests_properties(tree.setup tree.consumer PROPERTIES LABELS whole-tree TIMEOUT 600)
