# What Millrace needs from the system. `make deps` installs it on Debian 12.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

# gRPC: pkg-config names some forty libraries of its own; the two below are enough.
foreach(dep IN ITEMS jansson libjpeg spng libwebp zlib libzstd liblz4 snappy libprotobuf-c re2 libmicrohttpd)
  string(MAKE_C_IDENTIFIER ${dep} id)
  pkg_check_modules(${id} REQUIRED IMPORTED_TARGET ${dep})
endforeach()
find_library(MR_GRPC_LIBRARY grpc)
find_library(MR_GPR_LIBRARY gpr)
find_path(MR_GRPC_INCLUDE grpc/grpc.h)
find_library(MR_ROCKSDB_LIBRARY rocksdb)
find_path(MR_ROCKSDB_INCLUDE rocksdb/c.h)
find_path(MR_XXHASH_INCLUDE xxhash.h)
find_program(MR_PROTOC_C protoc-c)
foreach(var IN ITEMS MR_GRPC_LIBRARY MR_GPR_LIBRARY MR_GRPC_INCLUDE MR_ROCKSDB_LIBRARY MR_ROCKSDB_INCLUDE MR_XXHASH_INCLUDE MR_PROTOC_C)
  if(NOT ${var})
    message(FATAL_ERROR "${var} was not found: run `make deps` (Debian 12), which installs what Millrace needs")
  endif()
endforeach()

add_library(mr_grpc INTERFACE)
target_include_directories(mr_grpc SYSTEM INTERFACE ${MR_GRPC_INCLUDE})
target_link_libraries(mr_grpc INTERFACE ${MR_GRPC_LIBRARY} ${MR_GPR_LIBRARY})

add_library(mr_rocksdb INTERFACE)
target_include_directories(mr_rocksdb SYSTEM INTERFACE ${MR_ROCKSDB_INCLUDE})
target_link_libraries(mr_rocksdb INTERFACE ${MR_ROCKSDB_LIBRARY})
