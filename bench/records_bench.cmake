add_executable(records_bench ${CMAKE_CURRENT_LIST_DIR}/records_bench.c)
target_link_libraries(records_bench PRIVATE mr_flags mr_engine)
