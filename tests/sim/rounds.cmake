mr_test(sim_rounds_test LABEL sim SOURCES ${MR_TEST_DIR}/rounds_test.c LIBRARIES mr_sim)
