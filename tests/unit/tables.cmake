mr_test(tables_test LABEL unit SOURCES ${MR_TEST_DIR}/tables_test.c LIBRARIES mr_tables)
target_compile_definitions(tables_test PRIVATE MR_TABLES="${CMAKE_SOURCE_DIR}/tests/support/tables")
mr_test(tables_bounds_test LABEL unit SOURCES ${MR_TEST_DIR}/tables_bounds_test.c LIBRARIES mr_tables)
target_compile_definitions(tables_bounds_test PRIVATE MR_TABLES="${CMAKE_SOURCE_DIR}/tests/support/tables")
