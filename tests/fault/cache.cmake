mr_test(cache_fault_test LABEL fault SOURCES ${MR_TEST_DIR}/cache_fault_test.c ${MR_TEST_DIR}/../support/cache.c
  LIBRARIES mr_cache)
target_include_directories(cache_fault_test PRIVATE ${MR_TEST_DIR}/..)
mr_test(cache_table_fault_test LABEL fault SOURCES ${MR_TEST_DIR}/cache_table_fault_test.c ${MR_TEST_DIR}/../support/cache.c
  LIBRARIES mr_cache)
target_include_directories(cache_table_fault_test PRIVATE ${MR_TEST_DIR}/..)
