set(support ${MR_TEST_DIR}/../support)
mr_test(cache_window_test LABEL unit SOURCES ${MR_TEST_DIR}/cache_window_test.c LIBRARIES mr_cache_core)
mr_test(cache_test LABEL unit SOURCES ${MR_TEST_DIR}/cache_test.c ${support}/cache.c ${support}/cache_fake.c
  LIBRARIES mr_cache_core mr_cache_fake)
target_include_directories(cache_test PRIVATE ${MR_TEST_DIR}/..)
target_compile_definitions(cache_test PRIVATE TEST_FAKE)
mr_test(cache_rocks_test LABEL integration SOURCES ${MR_TEST_DIR}/cache_test.c ${support}/cache.c ${support}/cache_rocks.c
  LIBRARIES mr_cache)
target_include_directories(cache_rocks_test PRIVATE ${MR_TEST_DIR}/..)
