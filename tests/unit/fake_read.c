#include "fake_read.h"

#include "element/frame.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

mr_rpc_server *fake_read_serve(mr_rpc_runtime *rt, void (*accept)(void *ctx, mr_rpc_stream *s),
                               void *ctx, char *address)
{
    mr_rpc_server *server = NULL;
    int port = 0;

    assert_int_equal(mr_rpc_server_new(rt, NULL, &server, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_stream(server, "/millrace.Worker/Read", accept, ctx, NULL),
                     MR_OK);
    assert_int_equal(mr_rpc_server_listen(server, "127.0.0.1:0", NULL, &port, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_start(server, NULL), MR_OK);
    (void)snprintf(address, 64, "127.0.0.1:%d", port);
    return server;
}

Millrace__ReadRequest *fake_read_request(mr_rpc_message *m)
{
    uint8_t bytes[4096];
    size_t n = mr_rpc_message_size(m);

    assert_true(n <= sizeof bytes);
    mr_rpc_message_copy(m, 0, n, bytes);
    mr_rpc_message_free(m);
    return millrace__read_request__unpack(NULL, n, bytes);
}

bool fake_read_send(mr_rpc_stream *s, const Millrace__ReadHeader *h, mr_block *block)
{
    struct mr_rpc_slice slices[16];
    mr_frame *frame = NULL;
    size_t n = 0;

    assert_int_equal(mr_frame_build(h, &(struct mr_part){.block = block}, block != NULL ? 1 : 0, 0,
                                    true, &frame, NULL),
                     MR_OK);
    const struct iovec *iov = mr_frame_iov(frame, &n);
    assert_true(n <= 16);
    for (size_t i = 0; i < n; i++) {
        slices[i] = (struct mr_rpc_slice){.data = iov[i].iov_base,
                                          .size = iov[i].iov_len,
                                          .release = mr_frame_unref,
                                          .ctx = mr_frame_ref(frame)};
    }
    bool sent = mr_rpc_stream_send(s, slices, n, false, NULL) == MR_OK;
    mr_frame_unref(frame);
    mr_block_unref(block);
    return sent;
}

mr_block *fake_read_ints(uint32_t n, int64_t **values)
{
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    mr_block *block = NULL;

    assert_int_equal(mr_block_alloc(n, &leaf, 1, &block, NULL), MR_OK);
    *values = mr_block_data(block, 0);
    return block;
}

mr_block *fake_read_alien(void)
{
    uint64_t offsets[2] = {0, 3};
    struct mr_column c = {
        .kind = MR_COLUMN_FIXED, .dtype = MR_STRING, .offsets = offsets, .data = "abc"};
    mr_block *block = NULL;

    assert_int_equal(mr_block_new(1, &c, 1, &block, NULL), MR_OK);
    return block;
}
