cmake_minimum_required(VERSION 3.25)

# The archive is pure: what it asks of others is on this list, on which there is no clock, thread,
# socket or rand; and in ALSO, which is of others that are as pure.
set(allowed
  ${ALSO}
  # of ours, what is pure as well; the generated messages
  "mr_(malloc|calloc|realloc|reallocarray|free|strdup|strndup|memdup)" "mr_(address|error|map|share|shares|buf|pbjson|schedule)_.*" "mr_assert_failed" "mr_mix64"
  "mr_dispatcher_options_fill" "mr_(terms|word|words)_.*" "mr_escape"
  "millrace__.*" "protobuf_c_.*"
  # strings and memory
  "mem(cpy|move|set|cmp)" "str(n?len|n?cmp|chr|rchr|spn|cspn|casecmp|toul|str)" "v?snprintf"
  # what compilers and sanitizers add
  "_GLOBAL_OFFSET_TABLE_" "__(asan|ubsan|tsan|gcov|sanitizer).*" "__stack_chk_fail" "__.*_chk" "_Unwind_Resume" "__tls_get_addr")

execute_process(COMMAND ${NM} ${ARCHIVE} OUTPUT_VARIABLE out RESULT_VARIABLE rc)
if(NOT rc EQUAL 0)
  message(FATAL_ERROR "nm ${ARCHIVE}: ${rc}")
endif()
string(REGEX MATCHALL "[ \t]U [A-Za-z0-9_@.]+" lines "${out}")
string(REGEX MATCHALL "[ \t][TDRB] [A-Za-z0-9_@.]+" definitions "${out}")
list(TRANSFORM definitions REPLACE "^[ \t][TDRB] " "")
list(LENGTH lines n)
if(n LESS 1)
  message(FATAL_ERROR "nm said next to nothing: ${out}")
endif()
set(bad "")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^[ \t]U " "" symbol "${line}")
  set(ok FALSE)
  foreach(pattern IN LISTS allowed)
    if(symbol MATCHES "^(${pattern})$")
      set(ok TRUE)
    endif()
  endforeach()
  if(NOT ok AND NOT symbol IN_LIST definitions)
    list(APPEND bad ${symbol})
  endif()
endforeach()
if(bad)
  list(REMOVE_DUPLICATES bad)
  message(FATAL_ERROR "${ARCHIVE} is to be pure, and asks for: ${bad}")
endif()
