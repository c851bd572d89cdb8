# What nm says about the archives, in one configuration: slow assertions add uses of symbols.
if(MR_SLOW_ASSERTIONS AND NOT MR_SANITIZE)
  # All static libraries of @dir and below, a line each, with their objects.
  function(mr_list_archives dir ret)
    get_property(targets DIRECTORY ${dir} PROPERTY BUILDSYSTEM_TARGETS)
    get_property(below DIRECTORY ${dir} PROPERTY SUBDIRECTORIES)
    set(lines)
    foreach(target IN LISTS targets)
      get_target_property(type ${target} TYPE)
      if(type STREQUAL STATIC_LIBRARY)
        string(APPEND lines "${target};$<TARGET_OBJECTS:${target}>\n")
      endif()
    endforeach()
    foreach(sub IN LISTS below)
      mr_list_archives(${sub} more)
      string(APPEND lines "${more}")
    endforeach()
    set(${ret} "${lines}" PARENT_SCOPE)
  endfunction()

  # At the end, when all targets are known.
  function(mr_write_archives)
    mr_list_archives(${CMAKE_SOURCE_DIR} lines)
    file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/archives.txt CONTENT "${lines}")
  endfunction()
  cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL mr_write_archives)

  find_program(MR_PYTHON NAMES python3 HINTS /usr/bin)
  add_test(NAME cycles_test
    COMMAND ${MR_PYTHON} ${MR_TEST_DIR}/cycles.py ${CMAKE_NM} ${CMAKE_BINARY_DIR}/archives.txt)
  add_test(NAME purity_test
    COMMAND ${MR_PYTHON} ${MR_TEST_DIR}/purity.py ${CMAKE_NM} ${CMAKE_BINARY_DIR}/archives.txt)
  foreach(test IN ITEMS cycles_test purity_test)
    set_tests_properties(${test} PROPERTIES LABELS unit)
    mr_test_timeout(${test} 120)
  endforeach()
endif()
