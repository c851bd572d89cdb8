if(COMMAND mr_pytest AND TARGET millrace AND NOT MR_SANITIZE MATCHES "thread")
  mr_pytest(e2e_retention ${MR_TEST_DIR}/test_retention.py)
endif()
