if(TARGET millrace_shared)
  add_executable(read_bench ${CMAKE_CURRENT_LIST_DIR}/read_bench.c)
  target_link_libraries(read_bench PRIVATE mr_options millrace_shared)
endif()
