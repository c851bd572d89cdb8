# Whole programs behind wire.h. Few mutations: their threads take milliseconds each.
set(MR_FUZZ_WIRE ${MR_TEST_DIR}/answers.c ${MR_TEST_DIR}/lines.c ${MR_TEST_DIR}/wire.c)
function(mr_fuzz_behind_wire name)
  string(REPLACE _fuzz "" corpus ${name})
  mr_fuzz(${name} CORPUS ${MR_TEST_DIR}/corpus/${corpus} SOURCES ${MR_TEST_DIR}/${name}.c ${MR_FUZZ_WIRE} LIBRARIES ${ARGN} mr_json MUTATIONS 20)
  target_link_options(${name} PRIVATE -Wl,--wrap=mr_backoff_ms)
endfunction()

mr_fuzz_behind_wire(etcd_fuzz mr_coord_etcd mr_etcd_proto)
if(TARGET mr_worker)
  mr_fuzz_behind_wire(worker_fuzz mr_worker mr_control mr_proto)
  mr_fuzz_behind_wire(reader_fuzz mr_client mr_control mr_proto)
endif()
