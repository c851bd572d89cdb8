mr_test(cluster_local_test LABEL integration SOURCES ${MR_TEST_DIR}/cluster_local_test.c ${MR_TEST_DIR}/../support/live_store.c
  LIBRARIES mr_dispatcher mr_worker mr_client mr_coord_fake LOCAL)
set_tests_properties(cluster_local_test PROPERTIES COST 60) # it waits most of the time
mr_test(loop_sweep_test LABEL integration SOURCES ${MR_TEST_DIR}/loop_sweep_test.c ${MR_TEST_DIR}/../support/live_store.c
  ${MR_TEST_DIR}/../support/sweep.c LIBRARIES mr_dispatcher mr_control mr_coord_fake LOCAL)
set_tests_properties(loop_sweep_test PROPERTIES COST 70) # a state that cannot be loaded is tried again after seconds
