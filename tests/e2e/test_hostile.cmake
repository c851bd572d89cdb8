if(COMMAND mr_pytest AND TARGET millrace AND NOT MR_SANITIZE) # a sanitizer keeps what was freed: the bounds of memory are not its
  mr_pytest(e2e_hostile ${MR_TEST_DIR}/test_hostile.py)
endif()
