if(COMMAND mr_pytest AND TARGET millrace AND NOT MR_SANITIZE MATCHES "thread")
  mr_pytest(e2e_etcd ${MR_TEST_DIR}/test_etcd.py)
  set_tests_properties(e2e_etcd PROPERTIES COST 200)
endif()
