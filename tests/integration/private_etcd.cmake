mr_test(private_etcd_test LABEL integration SOURCES ${MR_TEST_DIR}/private_etcd_test.c LIBRARIES mr_main)
