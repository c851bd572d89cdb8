if(COMMAND mr_pytest AND TARGET millrace AND NOT MR_SANITIZE MATCHES "thread")
  mr_pytest(e2e_completion ${MR_TEST_DIR}/test_completion.py)
endif()
