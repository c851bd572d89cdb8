mr_test(engine_harness_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_harness_test.c ${MR_TEST_DIR}/engine_grants.c
        ${MR_TEST_DIR}/engine_pipelines.c ${MR_TEST_DIR}/engine_pipelines_more.c ${MR_TEST_DIR}/engine_pipelines_saved.c ${MR_TEST_DIR}/engine_support.c LIBRARIES mr_engine)
mr_test(engine_cancel_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_cancel_test.c ${MR_TEST_DIR}/engine_support.c
        LIBRARIES mr_engine)
mr_test(engine_draws_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_draws_test.c ${MR_TEST_DIR}/engine_pipelines.c
        ${MR_TEST_DIR}/engine_pipelines_more.c ${MR_TEST_DIR}/engine_pipelines_saved.c ${MR_TEST_DIR}/engine_support.c
        LIBRARIES mr_engine)
mr_test(engine_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_test.c ${MR_TEST_DIR}/engine_outside.c
  ${MR_TEST_DIR}/engine_support.c LIBRARIES mr_engine)
mr_test(engine_demand_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_demand_test.c ${MR_TEST_DIR}/engine_outside.c
  ${MR_TEST_DIR}/engine_support.c LIBRARIES mr_engine)
mr_test(engine_tfrecord_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_tfrecord_test.c ${MR_TEST_DIR}/engine_support.c
        LIBRARIES mr_engine)
mr_test(engine_saved_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_saved_test.c ${MR_TEST_DIR}/engine_support.c
        LIBRARIES mr_engine)
target_link_options(engine_saved_test PRIVATE -Wl,--wrap=pread)
mr_test(engine_split_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_split_test.c ${MR_TEST_DIR}/engine_support.c
        LIBRARIES mr_engine)
mr_test(dataset_test LABEL unit SOURCES ${MR_TEST_DIR}/dataset_test.c ${MR_TEST_DIR}/engine_support.c
        LIBRARIES mr_engine PkgConfig::libzstd)
mr_test(location_test LABEL unit SOURCES ${MR_TEST_DIR}/location_test.c ${MR_TEST_DIR}/engine_support.c
        LIBRARIES mr_engine)
mr_test(engine_rows_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_rows_test.c ${MR_TEST_DIR}/engine_support.c
        LIBRARIES mr_engine)
mr_test(engine_keys_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_keys_test.c ${MR_TEST_DIR}/engine_support.c
        LIBRARIES mr_engine)
mr_test(engine_groups_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_groups_test.c ${MR_TEST_DIR}/engine_support.c
        LIBRARIES mr_engine)
mr_test(engine_state_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_state_test.c ${MR_TEST_DIR}/engine_support.c
        LIBRARIES mr_engine)
mr_test(engine_pace_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_pace_test.c LIBRARIES mr_engine)
mr_test(engine_ahead_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_ahead_test.c ${MR_TEST_DIR}/engine_support.c
        LIBRARIES mr_engine)
target_link_options(engine_ahead_test PRIVATE -Wl,--wrap=mr_now_ns -Wl,--wrap=mr_driver_pause -Wl,--wrap=mr_driver_resume)
mr_test(engine_together_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_together_test.c ${MR_TEST_DIR}/engine_support.c
        LIBRARIES mr_engine)
target_link_options(engine_together_test PRIVATE -Wl,--wrap=mr_now_ns)
mr_test(engine_profile_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_profile_test.c ${MR_TEST_DIR}/engine_support.c
        LIBRARIES mr_engine)
mr_test(engine_fair_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_fair_test.c ${MR_TEST_DIR}/engine_support.c
        LIBRARIES mr_engine)
target_link_options(engine_fair_test PRIVATE -Wl,--wrap=mr_now_ns)
mr_test(engine_pool_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_pool_test.c LIBRARIES mr_engine)
mr_test(engine_memory_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_memory_test.c ${MR_TEST_DIR}/engine_support.c
        LIBRARIES mr_engine)
mr_test(engine_table_test LABEL unit SOURCES ${MR_TEST_DIR}/engine_table_test.c ${MR_TEST_DIR}/engine_support.c
        LIBRARIES mr_engine)
target_link_options(engine_table_test PRIVATE -Wl,--wrap=mr_pool_idle -Wl,--wrap=mr_pool_submit)
find_program(MR_PYTHON NAMES python3 HINTS /usr/bin)
add_test(NAME operators_page_test COMMAND ${MR_PYTHON} ${CMAKE_SOURCE_DIR}/scripts/operators.py --check)
set_tests_properties(operators_page_test PROPERTIES LABELS unit)
mr_test_timeout(operators_page_test 30)
target_compile_definitions(engine_draws_test PRIVATE MR_TABLES="${CMAKE_SOURCE_DIR}/tests/support/tables")
target_compile_definitions(engine_harness_test PRIVATE MR_TABLES="${CMAKE_SOURCE_DIR}/tests/support/tables")
