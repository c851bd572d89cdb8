# Headers and the pkg-config file; the program and the library are installed where they are defined.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/src/include/millrace DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
configure_file(${CMAKE_SOURCE_DIR}/cmake/millrace.pc.in ${CMAKE_BINARY_DIR}/millrace.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/millrace.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
