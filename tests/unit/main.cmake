mr_test(options_test LABEL unit SOURCES ${MR_TEST_DIR}/options_test.c LIBRARIES mr_options)
add_test(NAME options_files COMMAND ${CMAKE_COMMAND} -DGENERATE=$<TARGET_FILE:options_generate> -DROOT=${CMAKE_SOURCE_DIR}
  -DCHECK=ON -P ${CMAKE_SOURCE_DIR}/cmake/options_files.cmake)
set_tests_properties(options_files PROPERTIES LABELS unit)
add_dependencies(mr_tests options_generate)
mr_test(table_test LABEL unit SOURCES ${MR_TEST_DIR}/table_test.c LIBRARIES mr_main)
mr_test(run_test LABEL unit SOURCES ${MR_TEST_DIR}/run_test.c ${MR_TEST_DIR}/../support/heap.c LIBRARIES mr_main)
mr_test(notify_test LABEL unit SOURCES ${MR_TEST_DIR}/notify_test.c LIBRARIES mr_main)
mr_test(why_test LABEL unit SOURCES ${MR_TEST_DIR}/why_test.c LIBRARIES mr_main)
