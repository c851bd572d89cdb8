if(COMMAND mr_pytest AND TARGET millrace AND TARGET millrace_shared AND NOT MR_SANITIZE)
  mr_pytest(e2e_install ${MR_TEST_DIR}/test_install.py)
endif()
