mr_test(metrics_test LABEL unit SOURCES ${MR_TEST_DIR}/metrics_test.c LIBRARIES mr_metrics)
target_compile_definitions(metrics_test PRIVATE MR_METRICS_PAGE="${CMAKE_SOURCE_DIR}/docs/run/metrics.md")
mr_test(loop_metrics_test LABEL unit SOURCES ${MR_TEST_DIR}/loop_metrics_test.c LIBRARIES mr_dispatcher_server)
