mr_test(kernel_harness_test LABEL unit SOURCES ${MR_TEST_DIR}/kernel_harness_test.c ${MR_TEST_DIR}/kernel_support.c
        LIBRARIES mr_ops mr_image)
mr_test(kernel_test LABEL unit SOURCES ${MR_TEST_DIR}/kernel_test.c ${MR_TEST_DIR}/kernel_support.c LIBRARIES mr_ops mr_image)
mr_test(move_test LABEL unit SOURCES ${MR_TEST_DIR}/move_test.c LIBRARIES mr_ops)
mr_test(program_test LABEL unit SOURCES ${MR_TEST_DIR}/program_test.c ${MR_TEST_DIR}/program_support.c LIBRARIES mr_program)
mr_test(program_strips_test LABEL unit SOURCES ${MR_TEST_DIR}/program_strips_test.c ${MR_TEST_DIR}/program_support.c
        LIBRARIES mr_program)
mr_test(kernel_example_test LABEL unit SOURCES ${MR_TEST_DIR}/kernel_example_test.c ${MR_TEST_DIR}/kernel_support.c
        LIBRARIES mr_ops mr_image)
mr_test(kernel_hostile_test LABEL unit SOURCES ${MR_TEST_DIR}/kernel_hostile_test.c ${MR_TEST_DIR}/kernel_support.c
        LIBRARIES mr_ops mr_image)
mr_test(kernel_memory_test LABEL unit SOURCES ${MR_TEST_DIR}/kernel_memory_test.c ${MR_TEST_DIR}/kernel_support.c
        LIBRARIES mr_ops mr_image)
