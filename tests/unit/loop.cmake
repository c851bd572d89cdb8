mr_test(turn_test LABEL unit SOURCES ${MR_TEST_DIR}/turn_test.c LIBRARIES mr_sim_dispatcher)
mr_test(mailbox_test LABEL unit SOURCES ${MR_TEST_DIR}/mailbox_test.c LIBRARIES mr_dispatcher_server)
add_test(NAME turn_purity_test
  COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM} -DARCHIVE=$<TARGET_FILE:mr_dispatcher_turn>
    "-DALSO=mr_(core|member|metrics|budget|rng|identity|unpack)(_.*)?;mr_log;mr_line_copy;mr_outcome_clear;mr_task_shown_name;mr_.*_update_join"
    -P ${MR_TEST_DIR}/scripts/core_purity.cmake)
set_tests_properties(turn_purity_test PROPERTIES LABELS unit TIMEOUT 30)
