# The chart's files against each other and against the program's tables; `make chart-check` asks Helm and Kubernetes.
find_program(MR_PYTHON NAMES python3 HINTS /usr/bin)
add_test(NAME chart_files COMMAND ${MR_PYTHON} ${MR_TEST_DIR}/chart_files.py)
set_tests_properties(chart_files PROPERTIES LABELS charts SKIP_RETURN_CODE 77)
mr_test_timeout(chart_files 60)
