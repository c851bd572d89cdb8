# The twins are compiled here by themselves: what they ask for is what they may use.
foreach(part consumer judge leader test worker world)
  list(APPEND MR_ROUNDS_SOURCES ${MR_TEST_DIR}/rounds_${part}.c)
endforeach()
foreach(twin client/rounds.c client/rounds_dispatcher.c client/rounds_stream.c worker/round_book.c)
  list(APPEND MR_ROUNDS_SOURCES ${CMAKE_SOURCE_DIR}/src/${twin})
endforeach()
mr_test(sim_rounds_test LABEL sim SOURCES ${MR_ROUNDS_SOURCES}
  LIBRARIES mr_dispatcher_core mr_rounds TIMEOUT 300)
