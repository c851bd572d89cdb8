mr_fuzz(image_fuzz CORPUS ${MR_TEST_DIR}/corpus/image SOURCES ${MR_TEST_DIR}/image_fuzz.c LIBRARIES mr_image)
