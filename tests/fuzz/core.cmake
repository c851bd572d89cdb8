set(MR_FUZZ_WORLD ${MR_TEST_DIR}/lines.c ${MR_TEST_DIR}/world.c)
mr_fuzz(request_fuzz CORPUS ${MR_TEST_DIR}/corpus/request SOURCES ${MR_TEST_DIR}/request_fuzz.c ${MR_FUZZ_WORLD} LIBRARIES mr_dispatcher_core)
mr_fuzz(state_fuzz CORPUS ${MR_TEST_DIR}/corpus/state SOURCES ${MR_TEST_DIR}/state_fuzz.c ${MR_FUZZ_WORLD} LIBRARIES mr_state mr_dispatcher_core)
