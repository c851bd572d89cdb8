mr_fuzz(access_fuzz CORPUS ${MR_TEST_DIR}/corpus/access SOURCES ${MR_TEST_DIR}/access_fuzz.c LIBRARIES mr_access)
