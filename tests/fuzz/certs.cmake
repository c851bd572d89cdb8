mr_fuzz(certs_fuzz CORPUS ${MR_TEST_DIR}/corpus/certs SOURCES ${MR_TEST_DIR}/certs_fuzz.c LIBRARIES mr_certs)
