# The Python package and the service, end to end: pytest against the library and the program of this build tree.
find_program(MR_PYTHON NAMES python3 HINTS /usr/bin NO_DEFAULT_PATH)
if(NOT MR_PYTHON)
  find_program(MR_PYTHON NAMES python3 REQUIRED)
endif()

# A library with sanitizers in it wants their runtime first. Python leaks on purpose; the program shall not: its options come from
# millrace.asan too. What a sanitizer says of a server fails the test that is running (conftest.py).
set(MR_PYTEST_SANITIZE "")
if(MR_SANITIZE MATCHES "address")
  execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libasan.so OUTPUT_VARIABLE MR_LIBASAN
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(MR_PYTEST_SANITIZE "LD_PRELOAD=${MR_LIBASAN};UBSAN_OPTIONS=print_stacktrace=1;ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0:include_if_exists=${MR_TEST_DIR}/%b.asan")
endif()

# mr_pytest(<name> <files or directories...>): one ctest entry.
function(mr_pytest name)
  add_test(NAME ${name}
    COMMAND ${MR_PYTHON} -m pytest -q -p no:cacheprovider ${ARGN}
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "e2e" COST 20 # the long ones first, so that none is left over at the end
    ENVIRONMENT "PYTHONPATH=${CMAKE_SOURCE_DIR}/python;PYTHONDONTWRITEBYTECODE=1;MILLRACE_LIBRARY=$<TARGET_FILE:millrace_shared>;MILLRACE_PROGRAM=$<TARGET_FILE:millrace>;${MR_PYTEST_SANITIZE}")
  mr_test_timeout(${name} 1200)
endfunction()

# The names and values of docs/use/differences-from-tf-data.md, the local engine, then clusters of real processes.
if(TARGET millrace_shared AND TARGET millrace AND NOT MR_SANITIZE MATCHES "thread")
  mr_pytest(e2e_compat ${CMAKE_SOURCE_DIR}/tests/compat)
  mr_pytest(e2e_local ${MR_TEST_DIR}/test_ffi.py ${MR_TEST_DIR}/test_tensors.py ${MR_TEST_DIR}/test_datasets.py
    ${MR_TEST_DIR}/test_operators.py ${MR_TEST_DIR}/test_text.py ${MR_TEST_DIR}/test_iterators.py ${MR_TEST_DIR}/test_memory.py ${MR_TEST_DIR}/test_element_errors.py ${MR_TEST_DIR}/test_orders.py ${MR_TEST_DIR}/test_files.py ${MR_TEST_DIR}/test_table_files.py)
  mr_pytest(e2e_random_pipelines ${MR_TEST_DIR}/test_random_pipelines.py)
  mr_pytest(e2e_random_failures ${MR_TEST_DIR}/test_random_failures.py)
  foreach(area basics definitions jobs failures losses retention operators sharing)
    mr_pytest(e2e_service_${area} ${MR_TEST_DIR}/test_service_${area}.py)
  endforeach()
endif()
