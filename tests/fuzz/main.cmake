mr_fuzz(options_fuzz CORPUS ${MR_TEST_DIR}/corpus/options SOURCES ${MR_TEST_DIR}/options_fuzz.c LIBRARIES mr_options)
