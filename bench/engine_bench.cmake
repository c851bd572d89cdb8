if(TARGET millrace_shared)
  add_executable(engine_bench ${CMAKE_CURRENT_LIST_DIR}/engine_bench.c)
  target_link_libraries(engine_bench PRIVATE mr_flags millrace_shared)
endif()
