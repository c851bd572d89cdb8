add_executable(jpeg_bench ${CMAKE_CURRENT_LIST_DIR}/jpeg_bench.c)
target_link_libraries(jpeg_bench PRIVATE mr_flags PkgConfig::libjpeg)
