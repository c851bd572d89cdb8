mr_test(worker_book_test LABEL unit SOURCES ${MR_TEST_DIR}/worker_book_test.c ${MR_TEST_DIR}/book_support.c
  LIBRARIES mr_worker)
mr_test(worker_book_walk_test LABEL unit SOURCES ${MR_TEST_DIR}/worker_book_walk_test.c ${MR_TEST_DIR}/book_support.c
  LIBRARIES mr_worker)
mr_test(worker_reading_test LABEL unit SOURCES ${MR_TEST_DIR}/worker_reading_test.c ${MR_TEST_DIR}/book_support.c
  LIBRARIES mr_worker_session)
