add_executable(cores_bench ${CMAKE_CURRENT_LIST_DIR}/cores_bench.c)
target_link_libraries(cores_bench PRIVATE mr_flags mr_engine)
