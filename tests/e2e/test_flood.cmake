if(COMMAND mr_pytest AND TARGET millrace AND NOT MR_SANITIZE) # a sanitizer wants to be the first library
  add_library(other_host SHARED ${MR_TEST_DIR}/other_host.c)
  target_compile_definitions(other_host PRIVATE _GNU_SOURCE)
  target_link_libraries(other_host PRIVATE ${CMAKE_DL_LIBS})
  mr_pytest(e2e_flood ${MR_TEST_DIR}/test_flood.py)
  set_property(TEST e2e_flood APPEND PROPERTY ENVIRONMENT "MILLRACE_OTHER_HOST=$<TARGET_FILE:other_host>")
endif()
