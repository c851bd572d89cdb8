cmake_minimum_required(VERSION 3.25)

# What trainers load must not bring RocksDB along.
execute_process(COMMAND ${OBJDUMP} -p ${LIBRARY} OUTPUT_VARIABLE out RESULT_VARIABLE rc)
if(NOT rc EQUAL 0 OR NOT out MATCHES "NEEDED +libgrpc")
  message(FATAL_ERROR "objdump -p ${LIBRARY}: ${rc}: ${out}")
endif()
if(out MATCHES "NEEDED +librocksdb")
  message(FATAL_ERROR "${LIBRARY} needs RocksDB")
endif()
