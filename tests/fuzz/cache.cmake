mr_fuzz(record_fuzz CORPUS ${MR_TEST_DIR}/corpus/record SOURCES ${MR_TEST_DIR}/record_fuzz.c LIBRARIES mr_cache_core)
