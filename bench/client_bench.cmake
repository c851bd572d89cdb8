add_executable(client_bench ${CMAKE_CURRENT_LIST_DIR}/client_bench.c
  ${CMAKE_SOURCE_DIR}/tests/support/unary.c)
target_link_libraries(client_bench PRIVATE mr_flags mr_client mr_proto)
