mr_test(sim_retention_test LABEL sim SOURCES ${MR_TEST_DIR}/retention_test.c ${MR_TEST_DIR}/retention_store.c ${MR_TEST_DIR}/retention_world.c
  LIBRARIES mr_dispatcher_core)
set_tests_properties(sim_retention_test PROPERTIES COST 30)
