mr_fuzz(example_fuzz CORPUS ${MR_TEST_DIR}/corpus/example SOURCES ${MR_TEST_DIR}/example_fuzz.c LIBRARIES mr_ops)
