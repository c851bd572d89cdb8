mr_fuzz(block_fuzz CORPUS ${MR_TEST_DIR}/corpus/block SOURCES ${MR_TEST_DIR}/block_fuzz.c LIBRARIES mr_element)
mr_fuzz(frame_fuzz CORPUS ${MR_TEST_DIR}/corpus/frame SOURCES ${MR_TEST_DIR}/frame_fuzz.c LIBRARIES mr_element)
mr_fuzz(spec_fuzz CORPUS ${MR_TEST_DIR}/corpus/spec SOURCES ${MR_TEST_DIR}/spec_fuzz.c LIBRARIES mr_element)
