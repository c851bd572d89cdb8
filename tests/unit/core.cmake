mr_test(core_test LABEL unit SOURCES ${MR_TEST_DIR}/core_test.c ${MR_TEST_DIR}/core_support.c LIBRARIES mr_dispatcher_core)
mr_test(core_splits_test LABEL unit SOURCES ${MR_TEST_DIR}/core_splits_test.c ${MR_TEST_DIR}/core_support.c
  LIBRARIES mr_dispatcher_core)
mr_test(core_time_test LABEL unit SOURCES ${MR_TEST_DIR}/core_time_test.c ${MR_TEST_DIR}/core_support.c
  LIBRARIES mr_dispatcher_core)
mr_test(core_takeover_test LABEL unit SOURCES ${MR_TEST_DIR}/core_takeover_test.c ${MR_TEST_DIR}/core_support.c
  LIBRARIES mr_dispatcher_core)
mr_test(core_hosts_test LABEL unit SOURCES ${MR_TEST_DIR}/core_hosts_test.c ${MR_TEST_DIR}/core_support.c
  LIBRARIES mr_dispatcher_core)
mr_test(core_quota_test LABEL unit SOURCES ${MR_TEST_DIR}/core_quota_test.c ${MR_TEST_DIR}/core_support.c
  LIBRARIES mr_dispatcher_core)
mr_test(core_retention_test LABEL unit SOURCES ${MR_TEST_DIR}/core_retention_test.c ${MR_TEST_DIR}/core_support.c
  LIBRARIES mr_dispatcher_core)
foreach(name recovery poison unreachable)
  mr_test(core_${name}_test LABEL unit SOURCES ${MR_TEST_DIR}/core_${name}_test.c ${MR_TEST_DIR}/core_recovery_support.c
    ${MR_TEST_DIR}/core_support.c LIBRARIES mr_dispatcher_core)
endforeach()
mr_test(core_drain_test LABEL unit SOURCES ${MR_TEST_DIR}/core_drain_test.c ${MR_TEST_DIR}/core_support.c
  LIBRARIES mr_dispatcher_core)
mr_test(core_split_list_test LABEL unit SOURCES ${MR_TEST_DIR}/core_split_list_test.c LIBRARIES mr_dispatcher_core)
mr_test(core_model_test LABEL unit SOURCES ${MR_TEST_DIR}/core_model_test.c ${MR_TEST_DIR}/core_support.c
  LIBRARIES mr_dispatcher_core)
mr_test(core_random_test LABEL unit SOURCES ${MR_TEST_DIR}/core_random_test.c ${MR_TEST_DIR}/core_support.c
  LIBRARIES mr_dispatcher_core)
mr_test(map_test LABEL unit SOURCES ${MR_TEST_DIR}/map_test.c LIBRARIES mr_base)
foreach(name joining sharing)
  mr_test(core_${name}_test LABEL unit SOURCES ${MR_TEST_DIR}/core_${name}_test.c ${MR_TEST_DIR}/core_sharing_support.c
    ${MR_TEST_DIR}/core_support.c LIBRARIES mr_dispatcher_core)
endforeach()
mr_test(core_rounds_test LABEL unit SOURCES ${MR_TEST_DIR}/core_rounds_test.c ${MR_TEST_DIR}/core_support.c
  LIBRARIES mr_dispatcher_core)
mr_test(core_text_test LABEL unit SOURCES ${MR_TEST_DIR}/core_text_test.c LIBRARIES mr_dispatcher_core)
mr_test(core_counts_test LABEL unit SOURCES ${MR_TEST_DIR}/core_counts_test.c ${MR_TEST_DIR}/core_support.c
  LIBRARIES mr_dispatcher_core)
mr_test(core_flaws_test LABEL unit SOURCES ${MR_TEST_DIR}/core_flaws_test.c ${MR_TEST_DIR}/core_support.c
  LIBRARIES mr_dispatcher_core)
mr_test(core_why_test LABEL unit SOURCES ${MR_TEST_DIR}/core_why_test.c ${MR_TEST_DIR}/core_support.c
  LIBRARIES mr_dispatcher_core)
