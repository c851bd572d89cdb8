mr_test(certs_test LABEL unit SOURCES ${MR_TEST_DIR}/certs_test.c LIBRARIES mr_certs PkgConfig::libcrypto)
