# One suite, several stores.
set(support ${MR_TEST_DIR}/../support/etcd.c ${MR_TEST_DIR}/../support/port.c ${MR_TEST_DIR}/../support/store.c)
foreach(kind IN ITEMS fake etcd etcd_secure)
  set(reach SOCKETS)
  if(kind STREQUAL fake)
    set(reach LOCAL)
  endif()
  mr_test(conformance_store_${kind} LABEL conformance SOURCES ${MR_TEST_DIR}/store_test.c ${support}
    LIBRARIES mr_coord_fake mr_coord_etcd ARGS ${kind} ${reach})
  set_tests_properties(conformance_store_${kind} PROPERTIES SKIP_RETURN_CODE 77)
endforeach()
