mr_test(element_model_test LABEL unit SOURCES ${MR_TEST_DIR}/element_model_test.c ${MR_TEST_DIR}/element_random.c
        LIBRARIES mr_element)
mr_test(element_test LABEL unit SOURCES ${MR_TEST_DIR}/element_test.c LIBRARIES mr_element)
mr_test(element_places_test LABEL unit SOURCES ${MR_TEST_DIR}/element_places_test.c LIBRARIES mr_element)
mr_test(element_trace_test LABEL unit SOURCES ${MR_TEST_DIR}/element_trace_test.c LIBRARIES mr_element)
mr_test(element_wire_test LABEL unit SOURCES ${MR_TEST_DIR}/element_wire_test.c ${MR_TEST_DIR}/element_random.c
        LIBRARIES mr_element)
mr_test(heap_test LABEL unit SOURCES ${MR_TEST_DIR}/heap_test.c ${MR_TEST_DIR}/../support/heap.c LIBRARIES mr_element)
mr_test(unpack_test LABEL unit SOURCES ${MR_TEST_DIR}/unpack_test.c LIBRARIES mr_element)
