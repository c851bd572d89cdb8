add_library(mr_sim STATIC
  ${MR_TEST_DIR}/actors.c ${MR_TEST_DIR}/checker.c ${MR_TEST_DIR}/client.c ${MR_TEST_DIR}/elements.c ${MR_TEST_DIR}/loop.c ${MR_TEST_DIR}/reader.c ${MR_TEST_DIR}/replica.c
  ${MR_TEST_DIR}/store.c ${MR_TEST_DIR}/task.c ${MR_TEST_DIR}/walk.c ${MR_TEST_DIR}/worker.c ${MR_TEST_DIR}/world.c)
target_include_directories(mr_sim PUBLIC ${MR_TEST_DIR})
target_link_libraries(mr_sim PUBLIC mr_options mr_dispatcher_core)
mr_test(sim_walk_test LABEL sim SOURCES ${MR_TEST_DIR}/walk_test.c LIBRARIES mr_sim TIMEOUT 300)
foreach(story story protocol)
  mr_test(sim_${story}_test LABEL sim SOURCES ${MR_TEST_DIR}/${story}_test.c ${MR_TEST_DIR}/story.c LIBRARIES mr_sim)
endforeach()
add_executable(sim_main ${MR_TEST_DIR}/sim_main.c)
target_link_libraries(sim_main PRIVATE mr_sim)
