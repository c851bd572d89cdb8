/* The encoded form: what goes in comes out; no truncation is taken for a block; no flipped bit does
 * harm (under the address sanitizer, reading beyond the buffer would end the test). */
#include "element_random.h"

#include "element/frame.h"
#include "element/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROUNDS 150

static mr_block *random_block(struct mr_rng *rng, struct table *t)
{
    struct table_shape shape;
    struct table whole;
    mr_block *slice;

    shape_random(rng, &shape);
    if (mr_rng_below(rng, 4) == 0) {
        /* Large enough for slices of its own. */
        shape.rank[0] = 2;
        shape.dims[0][0] = 40;
        shape.dims[0][1] = mr_rng_below(rng, 2) == 0 ? -1 : 25;
    }
    table_random(rng, &shape, 1 + (uint32_t)mr_rng_below(rng, 8), &whole);
    mr_block *block = table_to_block(rng, &whole);
    uint32_t first = (uint32_t)mr_rng_below(rng, whole.rows);
    uint32_t count = (uint32_t)mr_rng_below(rng, whole.rows - first + 1);
    assert_int_equal(mr_block_slice(block, first, count, &slice, NULL), MR_OK);
    mr_block_unref(block);
    table_new(t, 0, whole.columns);
    table_append(t, &whole, first, count);
    table_free(&whole);
    if (count > 0 && mr_rng_below(rng, 2) == 0) {
        const uint64_t places[8] = {5, 50, 55, 500, 5000, 5001, 5555, 9999};
        mr_trace_file *file = mr_trace_file_new("file", MR_PLACES_BYTES);

        mr_block_trace(slice, file, mr_rng_below(rng, 1000), places);
        mr_trace_file_unref(file);
    }
    return slice;
}

static void round_trip(void **state)
{
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct mr_rng rng;
        struct table t;
        struct mr_encoded e;
        mr_buffer *buffer;
        mr_block *back;
        size_t used;
        mr_error err;

        mr_rng_seed(&rng, seed);
        mr_block *block = random_block(&rng, &t);
        bool checksum = mr_rng_below(&rng, 2) == 0;
        assert_int_equal(mr_block_encode(block, 77, checksum, &e, &err), MR_OK);
        size_t sum = 0;
        for (size_t i = 0; i < e.count; i++) {
            assert_true(e.iov[i].iov_len > 0);
            sum += e.iov[i].iov_len;
        }
        assert_int_equal(sum, e.total);
        assert_int_equal(e.total % 64, 0);
        mr_encoded_free(&e);
        assert_int_equal(mr_block_encode_buffer(block, 77, checksum, &buffer, &err), MR_OK);
        assert_int_equal(mr_buffer_size(buffer), sum);
        mr_block_unref(block);
        if (mr_block_decode(buffer, 0, 77, &back, &used, &err) != MR_OK) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
        }
        assert_int_equal(used, sum);
        assert_int_equal(mr_block_decode(buffer, 0, 78, &block, &used, &err), MR_EDATALOSS);
        mr_buffer_unref(buffer);
        assert_block_is(back, &t);
        for (uint32_t c = 0; c < mr_block_column_count(back); c++) {
            assert_int_equal((uintptr_t)mr_block_column(back, c)->data % 64, 0);
        }
        mr_block_unref(back);
        table_free(&t);
    }
}

/* A buffer of exactly @n bytes, so that the sanitizer sees a read beyond it. */
static mr_buffer *exact_buffer(const void *bytes, size_t n)
{
    mr_buffer *b;
    void *memory = n == 0 ? NULL : aligned_alloc(64, n);

    assert_true(n % 64 == 0);
    if (n > 0) {
        memcpy(memory, bytes, n);
    }
    assert_int_equal(mr_buffer_wrap(memory, n, free, memory, &b, NULL), MR_OK);
    return b;
}

static void truncations_are_refused(void **state)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct mr_rng rng;
        struct table t;
        mr_buffer *buffer;

        mr_rng_seed(&rng, seed);
        mr_block *block = random_block(&rng, &t);
        assert_int_equal(mr_block_encode_buffer(block, 0, false, &buffer, NULL), MR_OK);
        mr_block_unref(block);
        for (size_t n = 0; n < mr_buffer_size(buffer); n += 64) {
            mr_buffer *cut = exact_buffer(mr_buffer_data(buffer), n);
            mr_block *back;
            size_t used;

            assert_int_equal(mr_block_decode(cut, 0, 0, &back, &used, NULL), MR_EDATALOSS);
            mr_buffer_unref(cut);
        }
        mr_buffer_unref(buffer);
        table_free(&t);
    }
}

/* Read all that a block says it has. */
static uint64_t touch(const mr_block *block)
{
    uint64_t sum = 0;
    mr_buffer *again;

    assert_int_equal(mr_block_encode_buffer(block, 0, true, &again, NULL), MR_OK);
    for (size_t i = 0; i < mr_buffer_size(again); i++) {
        sum += ((unsigned char *)mr_buffer_data(again))[i];
    }
    mr_buffer_unref(again);
    return sum;
}

static void flipped_bits_do_no_harm(void **state)
{
    unsigned accepted = 0;
    unsigned refused = 0;

    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct mr_rng rng;
        struct table t;
        mr_buffer *buffer;

        mr_rng_seed(&rng, seed);
        mr_block *block = random_block(&rng, &t);
        assert_int_equal(mr_block_encode_buffer(block, 0, false, &buffer, NULL), MR_OK);
        mr_block_unref(block);
        size_t size = mr_buffer_size(buffer);
        for (int i = 0; i < 200; i++) {
            mr_buffer *bad = exact_buffer(mr_buffer_data(buffer), size);
            size_t span =
                i % 2 == 0 && size > 512 ? 512 : size; /* The descriptions are at the front. */
            mr_block *back;
            size_t used;

            for (uint64_t flips = 1 + mr_rng_below(&rng, 3); flips > 0; flips--) {
                ((unsigned char *)mr_buffer_data(bad))[mr_rng_below(&rng, span)] ^=
                    (unsigned char)(1u << mr_rng_below(&rng, 8));
            }
            int rc = mr_block_decode(bad, 0, 0, &back, &used, NULL);
            mr_buffer_unref(bad);
            if (rc == MR_OK) {
                accepted++;
                assert_true(touch(back) > 0);
                mr_block_unref(back);
            } else {
                refused++;
                assert_int_equal(rc, MR_EDATALOSS);
            }
        }
        mr_buffer_unref(buffer);
        table_free(&t);
    }
    assert_true(accepted > 100);
    assert_true(refused > 1000);
}

static void a_checksum_finds_any_flipped_bit(void **state)
{
    struct mr_rng rng;
    struct table t;
    mr_buffer *buffer;
    mr_block *back;
    size_t used;

    mr_rng_seed(&rng, 5);
    mr_block *block = random_block(&rng, &t);
    assert_int_equal(mr_block_encode_buffer(block, 0, true, &buffer, NULL), MR_OK);
    mr_block_unref(block);
    for (size_t i = 64; i < mr_buffer_size(buffer); i++) {
        ((unsigned char *)mr_buffer_data(buffer))[i] ^= 0x10;
        assert_int_equal(mr_block_decode(buffer, 0, 0, &back, &used, NULL), MR_EDATALOSS);
        ((unsigned char *)mr_buffer_data(buffer))[i] ^= 0x10;
    }
    assert_int_equal(mr_block_decode(buffer, 0, 0, &back, &used, NULL), MR_OK);
    mr_block_unref(back);
    mr_buffer_unref(buffer);
    table_free(&t);
}

static mr_buffer *gather_frame(const mr_frame *frame)
{
    size_t n;
    const struct iovec *iov = mr_frame_iov(frame, &n);
    mr_buffer *buffer;
    size_t at = 0;

    assert_int_equal(mr_buffer_new(mr_frame_bytes(frame), &buffer, NULL), MR_OK);
    for (size_t i = 0; i < n; i++) {
        memcpy((unsigned char *)mr_buffer_data(buffer) + at, iov[i].iov_base, iov[i].iov_len);
        at += iov[i].iov_len;
    }
    assert_int_equal(at, mr_buffer_size(buffer));
    return buffer;
}

static void unhold_buffer(void *hold)
{
    mr_buffer_unref(hold);
}

/* @block, which it takes, as bytes in one to three pieces that are aligned to nothing. */
static struct mr_part pack(struct mr_rng *rng, mr_block *block, uint64_t spec_hash)
{
    struct iovec iov[3];
    mr_buffer *encoded;
    mr_buffer *moved;
    mr_packed *packed;
    size_t n = 0;

    assert_int_equal(mr_block_encode_buffer(block, spec_hash, false, &encoded, NULL), MR_OK);
    mr_block_unref(block);
    assert_int_equal(mr_buffer_new(mr_buffer_size(encoded) + 3, &moved, NULL), MR_OK);
    unsigned char *at = (unsigned char *)mr_buffer_data(moved) + 3;
    memcpy(at, mr_buffer_data(encoded), mr_buffer_size(encoded));
    for (size_t left = mr_buffer_size(encoded); left > 0; n++) {
        size_t size = n == 2 ? left : mr_rng_below(rng, (uint32_t)left + 1);

        iov[n] = (struct iovec){at, size};
        at += size;
        left -= size;
    }
    mr_buffer_unref(encoded);
    assert_int_equal(mr_packed_new(iov, n, moved, unhold_buffer, &packed, NULL), MR_OK);
    return (struct mr_part){.packed = packed};
}

static void messages_round_trip(void **state)
{
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct mr_rng rng;
        struct table tables[4];
        struct mr_part rows[4];
        size_t n;
        Millrace__ReadHeader header = MILLRACE__READ_HEADER__INIT;
        mr_frame *frame;
        struct mr_frame_content got;
        mr_error err;

        mr_rng_seed(&rng, seed);
        n = mr_rng_below(&rng, 5);
        header.task_id = (char *)(uintptr_t) "task-1";
        header.first_element = seed;
        for (size_t i = 0; i < n; i++) {
            mr_block *block = random_block(&rng, &tables[i]);

            header.elements += mr_block_rows(block);
            rows[i] = mr_rng_below(&rng, 2) == 0 ? (struct mr_part){.block = block}
                                                 : pack(&rng, block, 9);
        }
        assert_int_equal(mr_frame_build(&header, rows, n, 9, false, &frame, &err), MR_OK);
        mr_buffer *buffer = gather_frame(frame);
        mr_frame_unref(frame);
        if (mr_frame_parse(buffer, 9, &got, &err) != MR_OK) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
        }
        mr_buffer_unref(buffer);
        assert_int_equal(got.n, n);
        assert_string_equal(got.header->task_id, "task-1");
        assert_int_equal(got.header->first_element, seed);
        for (size_t i = 0; i < n; i++) {
            assert_block_is(got.blocks[i], &tables[i]);
            assert_true(mr_block_exclusive(got.blocks[i])); /* whatever becomes of the others */
            table_free(&tables[i]);
            mr_part_unref(rows[i]);
        }
        mr_frame_content_free(&got);
    }
}

/* A packed block says as much of its rows as the block does, and gives it back. */
static void packed_blocks_round_trip(void **state)
{
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct mr_rng rng;
        struct table t;
        mr_error err;

        mr_rng_seed(&rng, seed);
        mr_block *block = random_block(&rng, &t);
        size_t bytes = mr_block_row_bytes(block, 0, mr_block_rows(block));
        struct mr_part rows = pack(&rng, block, 9);
        assert_int_equal(mr_part_count(rows), t.rows);
        assert_int_equal(mr_part_bytes(rows), bytes);
        if (mr_part_unpack(&rows, &err) != MR_OK) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
        }
        assert_null(rows.packed);
        assert_block_is(rows.block, &t);
        mr_part_unref(rows);
        table_free(&t);
    }
}

static void nothing_unhold(void *hold)
{
}

/* Bytes that are not a block are refused, or become one; none is read that is not there. */
static void damaged_packed_blocks_are_refused(void **state)
{
    struct mr_rng rng;
    struct table t;
    mr_buffer *buffer;

    mr_rng_seed(&rng, 5);
    mr_block *block = random_block(&rng, &t);
    assert_int_equal(mr_block_encode_buffer(block, 9, false, &buffer, NULL), MR_OK);
    for (int i = 0; i < 3000; i++) {
        size_t size = mr_buffer_size(buffer);

        size = mr_rng_below(&rng, 4) == 0 ? mr_rng_below(&rng, (uint32_t)size / 64 + 1) * 64 : size;
        mr_buffer *bad = exact_buffer(mr_buffer_data(buffer), size);
        struct iovec iov = {mr_buffer_data(bad), size};
        mr_packed *packed;
        mr_block *again;

        if (size > 0) {
            /* Mostly where the sizes are. */
            uint32_t near = i % 2 == 0 && size > 256 ? 256 : (uint32_t)size;

            ((unsigned char *)iov.iov_base)[mr_rng_below(&rng, near)] ^=
                (unsigned char)(1 + (i & 127));
        }
        if (mr_packed_new(&iov, 1, NULL, nothing_unhold, &packed, NULL) == MR_OK) {
            if (mr_packed_unpack(packed, &again, NULL) == MR_OK) {
                mr_block_unref(again);
            }
            mr_packed_unref(packed);
        }
        mr_buffer_unref(bad);
    }
    mr_buffer_unref(buffer);
    mr_block_unref(block);
    table_free(&t);
}

static void damaged_messages_are_refused(void **state)
{
    struct mr_rng rng;
    struct table t;
    Millrace__ReadHeader header = MILLRACE__READ_HEADER__INIT;
    struct mr_frame_content got;
    mr_frame *frame;
    mr_error err;

    mr_rng_seed(&rng, 3);
    mr_block *block = random_block(&rng, &t);
    header.elements = mr_block_rows(block) + 1; /* One more than there are. */
    assert_int_equal(
        mr_frame_build(&header, &(struct mr_part){.block = block}, 1, 0, false, &frame, NULL),
        MR_OK);
    mr_buffer *buffer = gather_frame(frame);
    assert_int_equal(mr_frame_parse(buffer, 0, &got, &err), MR_EDATALOSS);
    assert_non_null(strstr(err.message, "elements"));
    for (int i = 0; i < 3000; i++) {
        mr_buffer *bad = exact_buffer(mr_buffer_data(buffer), mr_buffer_size(buffer));

        ((unsigned char *)mr_buffer_data(bad))[mr_rng_below(&rng, mr_buffer_size(bad))] ^=
            (unsigned char)(1u << mr_rng_below(&rng, 8));
        if (mr_frame_parse(bad, 0, &got, NULL) == MR_OK) {
            mr_frame_content_free(&got);
        }
        mr_buffer_unref(bad);
    }
    for (size_t n = 0; n < mr_buffer_size(buffer); n += 64) {
        mr_buffer *cut = exact_buffer(mr_buffer_data(buffer), n);

        assert_true(mr_frame_parse(cut, 0, &got, NULL) < 0);
        mr_buffer_unref(cut);
    }
    mr_buffer_unref(buffer);
    mr_frame_unref(frame);
    mr_block_unref(block);
    table_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(truncations_are_refused),
        cmocka_unit_test(flipped_bits_do_no_harm),
        cmocka_unit_test(a_checksum_finds_any_flipped_bit),
        cmocka_unit_test(messages_round_trip),
        cmocka_unit_test(packed_blocks_round_trip),
        cmocka_unit_test(damaged_packed_blocks_are_refused),
        cmocka_unit_test(damaged_messages_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
