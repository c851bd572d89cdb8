if(TARGET mr_client)
  mr_fuzz(rounds_fuzz CORPUS ${MR_TEST_DIR}/corpus/rounds SOURCES ${MR_TEST_DIR}/rounds_fuzz.c ${MR_TEST_DIR}/lines.c
    LIBRARIES mr_worker mr_client mr_json mr_proto)
endif()
