if(NOT TARGET mr_pbjson_test_proto)
  mr_proto(mr_pbjson_test_proto ${MR_TEST_DIR}/../unit pbjson_test.proto)
endif()
mr_fuzz(pbjson_fuzz CORPUS ${MR_TEST_DIR}/corpus/pbjson SOURCES ${MR_TEST_DIR}/pbjson_fuzz.c LIBRARIES mr_json mr_pbjson_test_proto)
