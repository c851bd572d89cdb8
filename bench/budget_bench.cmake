add_executable(budget_bench ${CMAKE_CURRENT_LIST_DIR}/budget_bench.c
  ${CMAKE_SOURCE_DIR}/tests/support/unary.c)
target_link_libraries(budget_bench PRIVATE mr_flags mr_dispatcher mr_dataset mr_rpc mr_proto PkgConfig::jansson)
