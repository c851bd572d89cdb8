if(TARGET mr_client)
  mr_test(client_rounds_test LABEL unit SOURCES ${MR_TEST_DIR}/client_rounds_test.c LIBRARIES mr_client mr_proto)
endif()
