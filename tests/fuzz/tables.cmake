mr_fuzz(table_fuzz CORPUS ${CMAKE_SOURCE_DIR}/tests/support/tables SOURCES ${MR_TEST_DIR}/table_fuzz.c LIBRARIES mr_tables)
