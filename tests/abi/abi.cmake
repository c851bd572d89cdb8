# What the shared library exports. Sanitizers add symbols of their own.
if(TARGET millrace_shared AND NOT MR_SANITIZE)
  find_program(MR_PYTHON NAMES python3 HINTS /usr/bin)
  add_test(NAME exported_symbols
    COMMAND ${MR_PYTHON} ${MR_TEST_DIR}/symbols.py --readelf ${CMAKE_READELF} $<TARGET_FILE:millrace_shared>)
  set_tests_properties(exported_symbols PROPERTIES LABELS unit)
  mr_test_timeout(exported_symbols 30)
endif()
