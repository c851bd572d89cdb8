# One target a directory: the arrows between directories are the target_link_libraries() lines.

add_library(mr_flags INTERFACE)
target_compile_options(mr_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wswitch-enum -Wstrict-prototypes -Wmissing-prototypes
  -Wno-unused-parameter -fvisibility=hidden -fno-strict-aliasing)
target_compile_definitions(mr_flags INTERFACE _GNU_SOURCE)
target_include_directories(mr_flags INTERFACE
  ${CMAKE_SOURCE_DIR}/src/include ${CMAKE_BINARY_DIR}/include ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
if(MR_WERROR)
  target_compile_options(mr_flags INTERFACE -Werror)
endif()
if(MR_SLOW_ASSERTIONS)
  target_compile_definitions(mr_flags INTERFACE MR_SLOW_ASSERTIONS)
endif()
if(MR_SANITIZE)
  target_compile_options(mr_flags INTERFACE -fsanitize=${MR_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(mr_flags INTERFACE -fsanitize=${MR_SANITIZE})
  target_compile_definitions(mr_flags INTERFACE MR_SANITIZE)
endif()
if(MR_FUZZ)
  target_compile_options(mr_flags INTERFACE -fsanitize=fuzzer-no-link) # a fuzzer that does not see its way through what it calls is blind
endif()

# mr_library(<name> <sources...>): static library mr_<name>.
function(mr_library name)
  add_library(mr_${name} STATIC ${ARGN})
  target_link_libraries(mr_${name} PUBLIC mr_flags)
endfunction()

# mr_choice(<library> <local> <otherwise>): executables that link @library get @local with it, if they have the property
# MR_LOCAL, else @otherwise: what runs within one process, without gRPC and RocksDB, or what ships.
function(mr_choice library local otherwise)
  target_link_libraries(${library} INTERFACE $<IF:$<BOOL:$<TARGET_PROPERTY:MR_LOCAL>>,${local},${otherwise}>)
endfunction()

# mr_links(<target> <ret> <library...>): whether @target links one of these, however far down.
function(mr_links target ret)
  set(found OFF)
  set(seen)
  set(todo ${target})
  get_target_property(local ${target} MR_LOCAL)
  while(todo)
    list(POP_FRONT todo lib)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" lib "${lib}")
    if(lib MATCHES "^\\$<IF:.*MR_LOCAL>>,(.*),(.*)>$")
      if(local)
        set(lib ${CMAKE_MATCH_1})
      else()
        set(lib ${CMAKE_MATCH_2})
      endif()
    endif()
    if(lib IN_LIST ARGN)
      set(found ON)
    elseif(TARGET ${lib} AND NOT lib IN_LIST seen)
      list(APPEND seen ${lib})
      foreach(property IN ITEMS LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
        get_target_property(more ${lib} ${property})
        if(more)
          list(APPEND todo ${more})
        endif()
      endforeach()
    endif()
  endwhile()
  set(${ret} ${found} PARENT_SCOPE)
endfunction()

# Whether the thread sanitizer is of no use for @target: it links gRPC or RocksDB (Debian's are not instrumented), or it tests
# what knows no threads.
function(mr_tsan_is_useless target label ret)
  mr_links(${target} uninstrumented mr_grpc mr_rocksdb)
  mr_links(${target} pure mr_dispatcher_core mr_coord)
  mr_links(${target} threaded mr_rpc mr_engine mr_cache_core)
  if(uninstrumented OR label STREQUAL sim OR (pure AND NOT threaded))
    set(${ret} ON PARENT_SCOPE)
  else()
    set(${ret} OFF PARENT_SCOPE)
  endif()
endfunction()

# mr_test_timeout(<name> <seconds>): the limit of a ctest entry, longer where a sanitizer slows it down. It only bounds a test that
# hangs: one that needs 15 s of a CPU got less than that in 300 s beside three other runs.
function(mr_test_timeout name seconds)
  if(MR_SANITIZE)
    math(EXPR seconds "5 * ${seconds}")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${seconds})
endfunction()

# All test programs; with the thread sanitizer those for which it is of use.
add_custom_target(mr_tests)
# All generated sources.
add_custom_target(mr_generated)

# mr_test(<name> LABEL unit|sim|conformance|integration|fault|fuzz SOURCES ... LIBRARIES ... [ARGS ...] [LOCAL|SOCKETS]): one
# cmocka program, one ctest entry. LOCAL: without gRPC and RocksDB (mr_choice()); with the thread sanitizer all tests are,
# but those which need SOCKETS.
function(mr_test name)
  cmake_parse_arguments(T "LOCAL;SOCKETS" "LABEL" "SOURCES;LIBRARIES;ARGS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  if(T_LOCAL OR (MR_SANITIZE STREQUAL "thread" AND NOT T_SOCKETS))
    set_target_properties(${name} PROPERTIES MR_LOCAL ON)
  endif()
  target_link_libraries(${name} PRIVATE mr_flags ${T_LIBRARIES} cmocka)
  mr_tsan_is_useless(${name} ${T_LABEL} useless)
  add_test(NAME ${name} COMMAND ${name} ${T_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABEL}")
  mr_test_timeout(${name} 900)
  if(MR_SANITIZE STREQUAL "thread" AND useless)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    set_tests_properties(${name} PROPERTIES DISABLED ON)
  else()
    add_dependencies(mr_tests ${name})
  endif()
endfunction()

# mr_listed(<list> <macro> <variable>): the sources that a list names, one MACRO(name, file, ... a
# line. A changed list configures anew.
function(mr_listed list macro ret)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  string(REGEX REPLACE "[^/]+$" "" dir ${list})
  file(STRINGS ${list} lines REGEX "^${macro}\\(")
  set(sources)
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^${macro}\\([a-z0-9_]+, ([a-z0-9_]+),.*" "${dir}\\1.c" source "${line}")
    list(APPEND sources ${source})
  endforeach()
  list(REMOVE_DUPLICATES sources)
  set(${ret} ${sources} PARENT_SCOPE)
endfunction()

# mr_proto(<target> <root> <files relative to root...>): protobuf-c code in the build tree.
function(mr_proto target root)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/gen)
  file(MAKE_DIRECTORY ${out})
  set(sources)
  foreach(file IN LISTS ARGN)
    string(REGEX REPLACE "\\.proto$" "" stem ${file})
    add_custom_command(
      OUTPUT ${out}/${stem}.pb-c.c ${out}/${stem}.pb-c.h
      COMMAND ${MR_PROTOC_C} --c_out=${out} -I${root} ${root}/${file}
      DEPENDS ${root}/${file}
      VERBATIM)
    list(APPEND sources ${out}/${stem}.pb-c.c)
  endforeach()
  add_library(${target} STATIC ${sources})
  add_dependencies(mr_generated ${target})
  target_include_directories(${target} SYSTEM PUBLIC ${out})
  target_link_libraries(${target} PUBLIC PkgConfig::libprotobuf_c)
  if(MR_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${MR_SANITIZE})
  endif()
endfunction()

# mr_rpc_header(<target> <root> <files relative to root...>): millrace/service.rpc.h, the methods of their `service` blocks.
function(mr_rpc_header target root)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/gen/millrace/service.rpc.h)
  list(TRANSFORM ARGN PREPEND ${root}/ OUTPUT_VARIABLE protos)
  set(script ${CMAKE_SOURCE_DIR}/cmake/rpc_header.cmake)
  add_custom_command(OUTPUT ${out} COMMAND ${CMAKE_COMMAND} -DOUT=${out} "-DPROTOS=${protos}" -P ${script}
    DEPENDS ${protos} ${script} VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()

# mr_fuzz(<name> CORPUS <directory> SOURCES ... LIBRARIES ... [MUTATIONS <n>]): a decoder's fuzz target (LLVMFuzzerTestOneInput).
# As a ctest entry it replays the corpus, and some thousand mutations of it (n of each file), under any compiler; configured with
# clang and -DMR_FUZZ=ON it is a libFuzzer program.
function(mr_fuzz name)
  cmake_parse_arguments(F "" "CORPUS;MUTATIONS" "SOURCES;LIBRARIES" ${ARGN})
  if(MR_FUZZ)
    add_executable(${name} ${F_SOURCES})
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(${name} PRIVATE mr_flags ${F_LIBRARIES})
  else()
    add_executable(${name} ${F_SOURCES} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay.c)
    set_target_properties(${name} PROPERTIES MR_LOCAL ON) # Nothing here goes over a network.
    target_link_libraries(${name} PRIVATE mr_flags ${F_LIBRARIES} mr_base)
    add_test(NAME ${name} COMMAND ${name} ${F_CORPUS})
    set_tests_properties(${name} PROPERTIES LABELS fuzz)
    mr_links(${name} threaded mr_rpc)
    if(MR_SANITIZE STREQUAL "thread" AND NOT threaded)
      set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
      set_tests_properties(${name} PROPERTIES DISABLED ON)
    else()
      add_dependencies(mr_tests ${name})
    endif()
    if(DEFINED F_MUTATIONS)
      set_tests_properties(${name} PROPERTIES ENVIRONMENT MR_FUZZ_MUTATIONS=${F_MUTATIONS})
    endif()
    mr_test_timeout(${name} 120)
  endif()
endfunction()
