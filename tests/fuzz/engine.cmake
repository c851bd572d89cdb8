mr_fuzz(dataset_fuzz CORPUS ${MR_TEST_DIR}/corpus/dataset SOURCES ${MR_TEST_DIR}/dataset_fuzz.c LIBRARIES mr_engine)
mr_fuzz(file_fuzz CORPUS ${MR_TEST_DIR}/corpus/file SOURCES ${MR_TEST_DIR}/file_fuzz.c LIBRARIES mr_engine)
mr_fuzz(saved_fuzz CORPUS ${MR_TEST_DIR}/corpus/saved SOURCES ${MR_TEST_DIR}/saved_fuzz.c LIBRARIES mr_engine)
