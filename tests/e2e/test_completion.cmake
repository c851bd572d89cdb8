# Not under sanitizers: a shell runs the program beside itself, and ends it in the middle of resolving a name, which c-ares leaks.
if(COMMAND mr_pytest AND TARGET millrace AND NOT MR_SANITIZE)
  mr_pytest(e2e_completion ${MR_TEST_DIR}/test_completion.py)
endif()
