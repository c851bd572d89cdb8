/*
 * Bytes that go to memory past the caches. An ordinary store reads each line before it writes it,
 * and pushes out what is needed again; of a result that is larger than a core's part of the caches,
 * the beginning has left them anyway before the end is written. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__) && !defined(MR_SANITIZE) /* sanitizers do not see such stores */
#define MR_STREAMS
#include <emmintrin.h>
#endif

/* Results of so many bytes are streamed. */
#define MR_STREAM_COPY_BYTES ((uint64_t)4 << 20)

/* As memcpy(). Another thread may read @to, or get its memory, after mr_stream_end(). */
static inline void mr_stream_copy(unsigned char *to, const unsigned char *from, size_t n)
{
#ifdef MR_STREAMS
    size_t head = -(uintptr_t)to % sizeof(__m128i);

    if (n >= 4 * sizeof(__m128i)) {
        memcpy(to, from, head);
        to += head;
        from += head;
        n -= head;
    }
    for (; n >= 4 * sizeof(__m128i); n -= 4 * sizeof(__m128i)) {
        const __m128i *in = (const __m128i *)(const void *)from;
        __m128i *out = (__m128i *)(void *)to;
        __m128i a = _mm_loadu_si128(in);
        __m128i b = _mm_loadu_si128(in + 1);
        __m128i c = _mm_loadu_si128(in + 2);
        __m128i d = _mm_loadu_si128(in + 3);

        _mm_stream_si128(out, a);
        _mm_stream_si128(out + 1, b);
        _mm_stream_si128(out + 2, c);
        _mm_stream_si128(out + 3, d);
        to += 4 * sizeof *out;
        from += 4 * sizeof *in;
    }
#endif
    if (n > 0) {
        memcpy(to, from, n);
    }
}

static inline void mr_stream_end(void)
{
#ifdef MR_STREAMS
    _mm_sfence();
#endif
}
