mr_test(engine_harness_test LABEL unit TIMEOUT 300 SOURCES ${MR_TEST_DIR}/engine_harness_test.c ${MR_TEST_DIR}/engine_support.c
        LIBRARIES mr_engine)
