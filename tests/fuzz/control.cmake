if(TARGET mr_control)
  mr_fuzz(addresses_fuzz CORPUS ${MR_TEST_DIR}/corpus/addresses SOURCES ${MR_TEST_DIR}/addresses_fuzz.c LIBRARIES mr_control)
endif()
