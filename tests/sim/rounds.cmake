# The twins are compiled here by themselves: what they ask for is what they may use.
foreach(part consumer judge leader test worker world)
  list(APPEND MR_ROUNDS_SOURCES ${MR_TEST_DIR}/rounds_${part}.c)
endforeach()
mr_test(sim_rounds_test LABEL sim SOURCES ${MR_ROUNDS_SOURCES} ${CMAKE_SOURCE_DIR}/src/client/rounds.c
  ${CMAKE_SOURCE_DIR}/src/worker/round_book.c LIBRARIES mr_dispatcher_core mr_rounds TIMEOUT 300)
