# That the list of mistakes is in step with the code; putting them in takes minutes: make mutants.
find_program(MR_PYTHON NAMES python3 HINTS /usr/bin)
add_test(NAME mutants_list_test COMMAND ${MR_PYTHON} ${MR_TEST_DIR}/mutants.py --check)
set_tests_properties(mutants_list_test PROPERTIES LABELS sim TIMEOUT 60 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
