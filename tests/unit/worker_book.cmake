mr_test(worker_book_test LABEL unit SOURCES ${MR_TEST_DIR}/worker_book_test.c LIBRARIES mr_worker)
