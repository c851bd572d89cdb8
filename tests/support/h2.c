#include "tests/support/h2.h"

#include "base/base.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    DATA = 0,
    HEADERS = 1,
    RST_STREAM = 3,
    SETTINGS = 4,
    PING = 6,
    GOAWAY = 7,
    WINDOW_UPDATE = 8,
    CONTINUATION = 9
};
enum { ACK = 1, END_STREAM = 1, END_HEADERS = 4 };
#define FRAME_HEADER 9
#define FRAME_MAX 16384

static uint32_t number(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void send_all(struct h2 *h, const void *bytes, size_t n)
{
    const char *at = bytes;

    while (n > 0 && !h->closed) {
        ssize_t sent = send(h->fd, at, n, MSG_NOSIGNAL);

        if (sent < 0 && errno != EINTR) {
            h->closed = true;
        } else if (sent > 0) {
            at += sent;
            n -= (size_t)sent;
        }
    }
}

static void send_frame(struct h2 *h, int type, int flags, uint32_t stream, const void *bytes,
                       size_t n)
{
    unsigned char frame[FRAME_HEADER + FRAME_MAX] = {
        (unsigned char)(n >> 16),      (unsigned char)(n >> 8),      (unsigned char)n,
        (unsigned char)type,           (unsigned char)flags,         (unsigned char)(stream >> 24),
        (unsigned char)(stream >> 16), (unsigned char)(stream >> 8), (unsigned char)stream};

    memcpy(frame + FRAME_HEADER, bytes, n);
    if (h->holds) {
        h->held = realloc(h->held, h->nheld + FRAME_HEADER + n);
        memcpy(h->held + h->nheld, frame, FRAME_HEADER + n);
        h->nheld += FRAME_HEADER + n;
    } else {
        send_all(h, frame, FRAME_HEADER + n);
    }
}

void h2_hold(struct h2 *h)
{
    h->holds = true;
}

void h2_let_go(struct h2 *h)
{
    h->holds = false;
    send_all(h, h->held, h->nheld);
    h->nheld = 0;
}

void h2_open(struct h2 *h, const char *address)
{
    h2_open_from(h, address, "127.0.0.1");
}

void h2_open_from(struct h2 *h, const char *address, const char *host)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1))};
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    *h = (struct h2){.next = 1, .window = 65535, .initial = 65535};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    h->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    h->closed = h->fd < 0 || inet_pton(AF_INET, host, &from.sin_addr) != 1 ||
                bind(h->fd, (struct sockaddr *)&from, sizeof from) != 0 ||
                connect(h->fd, (struct sockaddr *)&to, sizeof to) != 0;
    send_all(h, preface, sizeof preface - 1);
    send_frame(h, SETTINGS, 0, 0, "", 0);
}

void h2_close(struct h2 *h)
{
    (void)close(h->fd);
    free(h->windows);
    free(h->held);
}

static size_t literal(char *at, const char *name_and_size, size_t name_size, const char *value)
{
    memcpy(at, name_and_size, name_size);
    at[name_size] = (char)strlen(value);
    /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): as HPACK has it */
    memcpy(at + name_size + 1, value, strlen(value));
    return name_size + 1 + strlen(value);
}

static uint32_t begin(struct h2 *h, const char *path, int flags)
{
    char block[512] = "\x83\x86"; /* :method POST, :scheme http, of the static table */
    uint32_t call = h->next;
    size_t n = 2;

    n += literal(block + n, "\x04", 1, path);
    n += literal(block + n, "\x01", 1, "test");                 /* :authority */
    n += literal(block + n, "\x0f\x10", 2, "application/grpc"); /* content-type */
    n += literal(block + n, "\0\x02te", 4, "trailers");
    h->next += 2;
    h->windows = realloc(h->windows, (h->ncalls + 1) * sizeof *h->windows);
    h->windows[h->ncalls++] = h->initial;
    send_frame(h, HEADERS, flags, call, block, n);
    return call;
}

uint32_t h2_call(struct h2 *h, const char *path)
{
    return begin(h, path, END_HEADERS);
}

uint32_t h2_begin_headers(struct h2 *h, const char *path)
{
    return begin(h, path, 0);
}

void h2_more_headers(struct h2 *h, uint32_t call, size_t n, bool end)
{
    char block[FRAME_MAX] = {0x10, 1, 'x', 0x7f}; /* in no table; its name; its size */
    size_t at = 4, rest = n - 127; /* as HPACK writes a number in seven bits and more */

    for (; rest >= 128; rest /= 128) {
        block[at++] = (char)(rest % 128 + 128);
    }
    block[at++] = (char)rest;
    memset(block + at, 'y', n);
    send_frame(h, CONTINUATION, end ? END_HEADERS : 0, call, block, at + n);
}

size_t h2_data(struct h2 *h, uint32_t call, const void *bytes, size_t n)
{
    int64_t *window = &h->windows[call / 2];
    int64_t most = *window < h->window ? *window : h->window;

    most = most < FRAME_MAX ? most : FRAME_MAX;
    n = most <= 0 ? 0 : n < (size_t)most ? n : (size_t)most;
    if (n > 0) {
        send_frame(h, DATA, 0, call, bytes, n);
        *window -= (int64_t)n;
        h->window -= (int64_t)n;
    }
    return n;
}

void h2_reset(struct h2 *h, uint32_t call)
{
    send_frame(h, RST_STREAM, 0, call, "\0\0\0\x08" /* CANCEL */, 4);
}

static void take_settings(struct h2 *h, const unsigned char *p, size_t n)
{
    for (; n >= 6; p += 6, n -= 6) {
        if (p[0] == 0 && p[1] == 4 /* INITIAL_WINDOW_SIZE */) {
            int64_t value = number(p + 2);

            for (size_t i = 0; i < h->ncalls; i++) {
                h->windows[i] += value - h->initial;
            }
            h->initial = value;
        }
    }
    send_frame(h, SETTINGS, ACK, 0, "", 0);
}

static void take_frame(struct h2 *h, const unsigned char *p, size_t n)
{
    int type = p[3];
    bool ack = (p[4] & ACK) != 0;
    uint32_t stream = number(p + 5);
    const unsigned char *body = p + FRAME_HEADER;

    if (type == WINDOW_UPDATE && stream == 0) {
        h->window += number(body);
    } else if (type == WINDOW_UPDATE && stream / 2 < h->ncalls) {
        h->windows[stream / 2] += number(body);
    } else if (type == SETTINGS && !ack) {
        take_settings(h, body, n);
    } else if (type == PING && !ack) {
        send_frame(h, PING, ACK, 0, body, n);
    } else if (type == RST_STREAM && stream / 2 < h->ncalls) {
        h->resets++;
        h->windows[stream / 2] = INT32_MIN; /* It takes no more. */
    } else if (type == HEADERS && (p[4] & END_STREAM) != 0) {
        h->ended++;
    } else if (type == GOAWAY) {
        h->closed = true;
    }
}

bool h2_hear(struct h2 *h, int ms)
{
    struct pollfd p = {.fd = h->fd, .events = POLLIN};
    size_t at = 0;

    if (h->closed || poll(&p, 1, ms) <= 0) {
        return false;
    }
    ssize_t got = recv(h->fd, h->in + h->have, sizeof h->in - h->have, 0);
    if (got <= 0) {
        h->closed = true;
        return false;
    }
    h->have += (size_t)got;
    while (h->have - at >= FRAME_HEADER) {
        size_t n = (size_t)h->in[at] << 16 | (size_t)h->in[at + 1] << 8 | h->in[at + 2];

        if (h->have - at < FRAME_HEADER + n) {
            break;
        }
        take_frame(h, h->in + at, n);
        at += FRAME_HEADER + n;
    }
    h->have -= at;
    memmove(h->in, h->in + at, h->have);
    return true;
}
