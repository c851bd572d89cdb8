mr_test(coord_commit_test LABEL unit SOURCES ${MR_TEST_DIR}/coord_commit_test.c LIBRARIES mr_coord)
mr_test(coord_budget_test LABEL unit SOURCES ${MR_TEST_DIR}/coord_budget_test.c LIBRARIES mr_coord)
mr_test(coord_load_test LABEL unit SOURCES ${MR_TEST_DIR}/coord_load_test.c LIBRARIES mr_coord mr_coord_fake)
mr_test(etcd_trouble_test LABEL unit SOURCES ${MR_TEST_DIR}/etcd_trouble_test.c LIBRARIES mr_coord_etcd)
