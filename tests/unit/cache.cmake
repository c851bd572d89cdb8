mr_test(cache_window_test LABEL unit SOURCES ${MR_TEST_DIR}/cache_window_test.c LIBRARIES mr_cache_core)

# Over the storage in memory, which the thread sanitizer sees through, and over RocksDB.
set(support ${MR_TEST_DIR}/../support/cache.c ${MR_TEST_DIR}/../support/cache_fixture.c)
foreach(name IN ITEMS cache_test cache_threads_test cache_broken_test)
  mr_test(${name} LABEL unit SOURCES ${MR_TEST_DIR}/${name}.c ${support} ${MR_TEST_DIR}/../support/cache_fake.c
    LIBRARIES mr_cache_core mr_cache_fake)
  target_include_directories(${name} PRIVATE ${MR_TEST_DIR}/..)
endforeach()
foreach(name IN ITEMS test threads_test)
  mr_test(cache_rocks_${name} LABEL integration SOURCES ${MR_TEST_DIR}/cache_${name}.c ${support}
    ${MR_TEST_DIR}/../support/cache_rocks.c LIBRARIES mr_cache)
  target_include_directories(cache_rocks_${name} PRIVATE ${MR_TEST_DIR}/..)
endforeach()
mr_test(cache_rocks_leak_test LABEL integration SOURCES ${MR_TEST_DIR}/cache_rocks_leak_test.c ${support}
  ${MR_TEST_DIR}/../support/cache_rocks.c LIBRARIES mr_cache)
target_include_directories(cache_rocks_leak_test PRIVATE ${MR_TEST_DIR}/..)

if(TARGET millrace_shared AND NOT MR_SANITIZE STREQUAL "thread") # which builds mr_tests only
  add_test(NAME library_needs_no_rocksdb COMMAND ${CMAKE_COMMAND} -DOBJDUMP=${CMAKE_OBJDUMP}
    -DLIBRARY=$<TARGET_FILE:millrace_shared> -P ${MR_TEST_DIR}/scripts/no_rocksdb.cmake)
  set_tests_properties(library_needs_no_rocksdb PROPERTIES LABELS unit TIMEOUT 30)
endif()
