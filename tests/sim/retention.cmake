mr_test(sim_retention_test LABEL sim SOURCES ${MR_TEST_DIR}/retention_test.c ${MR_TEST_DIR}/retention_leader.c ${MR_TEST_DIR}/retention_world.c
  LIBRARIES mr_sim_dispatcher)
set_tests_properties(sim_retention_test PROPERTIES COST 30)
