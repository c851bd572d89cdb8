mr_fuzz(example_fuzz CORPUS ${MR_TEST_DIR}/corpus/example SOURCES ${MR_TEST_DIR}/example_fuzz.c LIBRARIES mr_ops)
mr_fuzz(csv_fuzz CORPUS ${MR_TEST_DIR}/corpus/csv SOURCES ${MR_TEST_DIR}/csv_fuzz.c LIBRARIES mr_ops m)
mr_fuzz(json_fuzz CORPUS ${MR_TEST_DIR}/corpus/json SOURCES ${MR_TEST_DIR}/json_fuzz.c LIBRARIES mr_ops m)
mr_fuzz(wav_fuzz CORPUS ${MR_TEST_DIR}/corpus/wav SOURCES ${MR_TEST_DIR}/wav_fuzz.c LIBRARIES mr_ops m)
