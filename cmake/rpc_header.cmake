# cmake -DOUT=<header> -DPROTOS=<files> -P rpc_header.cmake: the names of the methods that the `service` blocks of .proto files
# declare, as a C header. No other tool is needed: a block is `service Name {`, lines `rpc Name(Request) returns (Reply) {}`, `}`.
set(text "/* Generated from the service blocks of ${PROTOS} by cmake/rpc_header.cmake. */
#ifndef MILLRACE_RPC_H
#define MILLRACE_RPC_H

#include \"millrace/service.pb-c.h\"

/* MR_PATH_<METHOD>: the path. MR_METHOD_<METHOD>: the bare name. MR_TYPES_<METHOD>: initialisers of a table of methods. */
")
foreach(proto IN LISTS PROTOS)
  file(STRINGS ${proto} lines REGEX "^(package|service|  rpc) ")
  foreach(line IN LISTS lines)
    if(line MATCHES "^package ([a-z.]+)")
      set(package ${CMAKE_MATCH_1})
    elseif(line MATCHES "^service ([A-Za-z]+)")
      set(service ${CMAKE_MATCH_1})
      string(TOUPPER ${service} upper)
      string(APPEND text "\n#define MR_SERVICE_${upper} \"/${package}.${service}/\"\n")
      set(methods_${upper} 0)
      list(APPEND services ${upper})
    elseif(line MATCHES "^  rpc ([A-Za-z]+) ?\\((stream )?([A-Za-z]+)\\) returns \\((stream )?([A-Za-z]+)\\)")
      set(name ${CMAKE_MATCH_1})
      set(request ${CMAKE_MATCH_3})
      set(reply ${CMAKE_MATCH_5})
      if(CMAKE_MATCH_4)
        set(stream true)
      else()
        set(stream false)
      endif()
      foreach(word IN ITEMS name request reply)
        string(REGEX REPLACE "([a-z])([A-Z])" "\\1_\\2" snake_${word} ${${word}})
        string(TOLOWER ${snake_${word}} snake_${word})
      endforeach()
      string(TOUPPER ${snake_name} upper_name)
      math(EXPR methods_${upper} "${methods_${upper}} + 1")
      string(APPEND text "#define MR_METHOD_${upper_name} \"${name}\"
#define MR_PATH_${upper_name} MR_SERVICE_${upper} MR_METHOD_${upper_name}
#define MR_TYPES_${upper_name} \\
    .path = MR_PATH_${upper_name}, .request = &millrace__${snake_request}__descriptor, \\
    .reply = &millrace__${snake_reply}__descriptor, .stream = ${stream}
")
    else()
      message(FATAL_ERROR "${proto}: not understood: ${line}")
    endif()
  endforeach()
endforeach()
string(APPEND text "\n")
foreach(upper IN LISTS services)
  string(APPEND text "enum { MR_METHODS_${upper} = ${methods_${upper}} }; /* how many */\n")
endforeach()
file(WRITE ${OUT} "${text}\n#endif\n")
