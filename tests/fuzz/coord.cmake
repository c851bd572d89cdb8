mr_fuzz(election_fuzz CORPUS ${MR_TEST_DIR}/corpus/election SOURCES ${MR_TEST_DIR}/election_fuzz.c ${MR_TEST_DIR}/lines.c LIBRARIES mr_coord mr_json)
