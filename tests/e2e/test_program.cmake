if(COMMAND mr_pytest AND TARGET millrace)
  mr_pytest(e2e_program ${MR_TEST_DIR}/test_program.py)
endif()
