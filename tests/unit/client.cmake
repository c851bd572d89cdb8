if(TARGET mr_client)
  mr_test(registration_test LABEL unit SOURCES ${MR_TEST_DIR}/registration_test.c LIBRARIES mr_client)
  mr_test(session_test LABEL unit SOURCES ${MR_TEST_DIR}/session_test.c LIBRARIES mr_client)
  mr_test(read_test LABEL unit SOURCES ${MR_TEST_DIR}/read_test.c LIBRARIES mr_client_read)
  mr_test(round_log_test LABEL unit SOURCES ${MR_TEST_DIR}/round_log_test.c LIBRARIES mr_client)
  mr_test(hand_log_test LABEL unit SOURCES ${MR_TEST_DIR}/hand_log_test.c LIBRARIES mr_client)
  mr_test(read_waits_test LABEL unit SOURCES ${MR_TEST_DIR}/read_waits_test.c LIBRARIES mr_client)
  mr_test(read_options_test LABEL unit SOURCES ${MR_TEST_DIR}/read_options_test.c LIBRARIES mr_client)
  mr_test(control_test LABEL unit SOURCES ${MR_TEST_DIR}/control_test.c ${MR_TEST_DIR}/fake_service.c
    LIBRARIES mr_control mr_element)
  target_link_options(control_test PRIVATE -Wl,--wrap=getaddrinfo)
  foreach(subject IN ITEMS "" _workers _dispatcher _losses _given _leave)
    mr_test(reader${subject}_test LABEL unit
      SOURCES ${MR_TEST_DIR}/reader${subject}_test.c ${MR_TEST_DIR}/reader_support.c ${MR_TEST_DIR}/fake_service.c
        ${MR_TEST_DIR}/fake_read.c ${MR_TEST_DIR}/fake_worker.c ${MR_TEST_DIR}/../support/port.c
      LIBRARIES mr_client)
  endforeach()
  mr_test(coordinated_test LABEL unit
    SOURCES ${MR_TEST_DIR}/coordinated_test.c ${MR_TEST_DIR}/fake_service.c ${MR_TEST_DIR}/fake_read.c
      ${MR_TEST_DIR}/fake_turns.c
    LIBRARIES mr_client)
endif()
