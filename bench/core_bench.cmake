add_executable(core_bench ${CMAKE_CURRENT_LIST_DIR}/core_bench.c)
target_link_libraries(core_bench PRIVATE mr_flags mr_dispatcher_core)
