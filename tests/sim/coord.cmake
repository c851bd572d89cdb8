foreach(part sim walk alloc)
  mr_test(coord_${part}_test LABEL sim SOURCES ${MR_TEST_DIR}/coord_${part}_test.c ${MR_TEST_DIR}/coord_world.c
    LIBRARIES mr_coord mr_coord_fake)
endforeach()
