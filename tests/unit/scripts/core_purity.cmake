# The core is pure: what its archive asks of others is on this list, on which there is no clock, thread, socket or rand.
set(allowed
  # our own, and the generated messages
  "mr_.*" "millrace__.*" "protobuf_c_.*"
  # strings and memory
  "mem(cpy|move|set|cmp)" "str(n?len|n?cmp|chr|rchr|spn|cspn|casecmp|toul|str)" "v?snprintf"
  # what compilers and sanitizers add
  "_GLOBAL_OFFSET_TABLE_" "__(asan|ubsan|tsan|gcov|sanitizer).*" "__stack_chk_fail" "__.*_chk" "_Unwind_Resume" "__tls_get_addr")
# Of base, only what is pure as well.
set(forbidden "mr_(now|clock|time_ms|random|thread|mutex|cond|log)_?.*" "mr_rng_.*")

execute_process(COMMAND ${NM} -u ${ARCHIVE} OUTPUT_VARIABLE out RESULT_VARIABLE rc)
if(NOT rc EQUAL 0)
  message(FATAL_ERROR "nm -u ${ARCHIVE}: ${rc}")
endif()
string(REGEX MATCHALL "[ \t]U [A-Za-z0-9_@.]+" lines "${out}")
list(LENGTH lines n)
if(n LESS 10)
  message(FATAL_ERROR "nm -u said next to nothing: ${out}")
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
  foreach(pattern IN LISTS forbidden)
    if(symbol MATCHES "^(${pattern})$")
      set(ok FALSE)
    endif()
  endforeach()
  if(NOT ok)
    list(APPEND bad ${symbol})
  endif()
endforeach()
if(bad)
  list(REMOVE_DUPLICATES bad)
  message(FATAL_ERROR "src/dispatcher/core is to be pure, and asks for: ${bad}")
endif()
