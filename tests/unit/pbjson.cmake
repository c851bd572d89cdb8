if(NOT TARGET mr_pbjson_test_proto)
  mr_proto(mr_pbjson_test_proto ${MR_TEST_DIR} pbjson_test.proto)
endif()
mr_test(pbjson_test LABEL unit SOURCES ${MR_TEST_DIR}/pbjson_test.c LIBRARIES mr_json mr_pbjson_test_proto)
