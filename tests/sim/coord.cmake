mr_test(coord_sim_test LABEL sim SOURCES ${MR_TEST_DIR}/coord_sim_test.c LIBRARIES mr_coord mr_coord_fake)
