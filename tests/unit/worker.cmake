set(MR_WORKER_FAKE ${MR_TEST_DIR}/worker_fake.c ${MR_TEST_DIR}/worker_fake_client.c ${MR_TEST_DIR}/worker_fake_orders.c)
mr_test(worker_drain_test LABEL unit SOURCES ${MR_TEST_DIR}/worker_drain_test.c ${MR_WORKER_FAKE} LIBRARIES mr_worker)
foreach(name service returns limits)
  mr_test(worker_${name}_test LABEL unit SOURCES ${MR_TEST_DIR}/worker_${name}_test.c ${MR_TEST_DIR}/worker_service_support.c
    ${MR_TEST_DIR}/../support/h2.c ${MR_TEST_DIR}/../support/port.c ${MR_WORKER_FAKE} LIBRARIES mr_worker)
endforeach()
mr_test(worker_sharing_test LABEL integration SOURCES ${MR_TEST_DIR}/worker_sharing_test.c ${MR_WORKER_FAKE}
  LIBRARIES mr_worker mr_cache)
mr_test(worker_turns_test LABEL unit SOURCES ${MR_TEST_DIR}/worker_turns_test.c ${MR_WORKER_FAKE} LIBRARIES mr_worker)
mr_test(row_groups_test LABEL unit SOURCES ${MR_TEST_DIR}/row_groups_test.c LIBRARIES mr_worker)
mr_test(worker_definitions_test LABEL unit SOURCES ${MR_TEST_DIR}/worker_definitions_test.c
        ${MR_TEST_DIR}/engine_support.c LIBRARIES mr_worker)
mr_test(worker_windows_test LABEL unit SOURCES ${MR_TEST_DIR}/worker_windows_test.c LIBRARIES mr_worker)
mr_test(worker_registration_test LABEL unit SOURCES ${MR_TEST_DIR}/worker_registration_test.c LIBRARIES mr_worker_session)
mr_test(worker_file_system_test LABEL unit SOURCES ${MR_TEST_DIR}/worker_file_system_test.c LIBRARIES mr_worker)
