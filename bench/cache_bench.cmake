add_executable(cache_bench ${CMAKE_CURRENT_LIST_DIR}/cache_bench.c)
target_link_libraries(cache_bench PRIVATE mr_flags mr_cache mr_rocksdb)
