add_executable(trace_bench ${CMAKE_CURRENT_LIST_DIR}/trace_bench.c)
target_link_libraries(trace_bench PRIVATE mr_flags mr_engine)
target_link_options(trace_bench PRIVATE -Wl,--wrap=mr_trace_file_new)
