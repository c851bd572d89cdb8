# The alert rules against runbook, tests and metrics; `make alerts-check` asks promtool.
find_program(MR_PYTHON NAMES python3 HINTS /usr/bin)
add_test(NAME alerts_listed COMMAND ${MR_PYTHON} ${MR_TEST_DIR}/listed.py)
set_tests_properties(alerts_listed PROPERTIES LABELS charts SKIP_RETURN_CODE 77)
mr_test_timeout(alerts_listed 30)
