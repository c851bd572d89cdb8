# Every header compiles alone; the public ones as C11 and as C++17 too, with all warnings.
#
# One object a header and a language, all in the build of mr_headers; the test is that it builds.
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
endif()

set(gen ${CMAKE_CURRENT_BINARY_DIR}/headers)
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
  ${CMAKE_SOURCE_DIR}/src/*.h ${CMAKE_SOURCE_DIR}/coord/*.h ${CMAKE_SOURCE_DIR}/cache/*.h)
set(internal)
set(public_c)
set(public_cxx)
foreach(header IN LISTS headers)
  string(MAKE_C_IDENTIFIER ${header} id)
  if(header MATCHES "^src/include/")
    string(REGEX REPLACE "^src/include/" "" spelled ${header})
    # Twice: the second inclusion must change nothing.
    file(CONFIGURE OUTPUT ${gen}/${id}.c CONTENT "#include <${spelled}>\n#include <${spelled}>\n" @ONLY)
    file(CONFIGURE OUTPUT ${gen}/${id}.cc CONTENT "#include <${spelled}>\n#include <${spelled}>\n" @ONLY)
    list(APPEND public_c ${gen}/${id}.c)
    list(APPEND public_cxx ${gen}/${id}.cc)
  else()
    string(REGEX REPLACE "^src/" "" spelled ${header})
    file(CONFIGURE OUTPUT ${gen}/${id}.c CONTENT "#include \"${spelled}\"\n#include \"${spelled}\"\n" @ONLY)
    list(APPEND internal ${gen}/${id}.c)
  endif()
endforeach()

add_library(mr_headers_internal OBJECT EXCLUDE_FROM_ALL ${internal})
target_link_libraries(mr_headers_internal PRIVATE mr_flags mr_proto mr_etcd_proto mr_grpc
  PkgConfig::jansson PkgConfig::zlib)

# As a stranger's compiler would see them: nothing of ours on the command line but the path.
add_library(mr_headers_public OBJECT EXCLUDE_FROM_ALL ${public_c})
target_include_directories(mr_headers_public PRIVATE ${CMAKE_SOURCE_DIR}/src/include ${CMAKE_BINARY_DIR}/include)
set_target_properties(mr_headers_public PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
target_compile_options(mr_headers_public PRIVATE -Wall -Wextra -Wpedantic -Wstrict-prototypes -Wshadow -Werror)
set(targets mr_headers_internal mr_headers_public)

if(CMAKE_CXX_COMPILER)
  add_library(mr_headers_cxx OBJECT EXCLUDE_FROM_ALL ${public_cxx})
  target_include_directories(mr_headers_cxx PRIVATE ${CMAKE_SOURCE_DIR}/src/include ${CMAKE_BINARY_DIR}/include)
  set_target_properties(mr_headers_cxx PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
  target_compile_options(mr_headers_cxx PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wold-style-cast -Werror)
  list(APPEND targets mr_headers_cxx)
endif()

add_test(NAME headers COMMAND ${CMAKE_COMMAND} --build ${CMAKE_BINARY_DIR} --target ${targets})
set_tests_properties(headers PROPERTIES LABELS headers RESOURCE_LOCK build)
mr_test_timeout(headers 300)

find_program(MR_PYTHON NAMES python3 HINTS /usr/bin)
add_test(NAME arrows COMMAND ${MR_PYTHON} ${MR_TEST_DIR}/arrows.py)
set_tests_properties(arrows PROPERTIES LABELS headers)
mr_test_timeout(arrows 30)
