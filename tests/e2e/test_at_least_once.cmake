if(COMMAND mr_pytest AND TARGET millrace AND NOT MR_SANITIZE MATCHES "thread")
  mr_pytest(e2e_at_least_once ${MR_TEST_DIR}/test_at_least_once.py)
endif()
