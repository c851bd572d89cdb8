#include "ops/csv.h"

#include "ops/attr.h"

/* To where a field begins. Behind a delimiter there is one, also at the very end, but not behind
 * ends of lines. */
static void find_field(const struct mr_csv_format *format, struct mr_csv_cursor *c, bool more)
{
    const unsigned char *begin = c->at;

    while (!format->lines && c->at < c->end && (*c->at == '\n' || *c->at == '\r')) {
        c->at++;
    }
    c->more = c->at < c->end || (more && c->at == begin);
}

struct mr_csv_cursor mr_csv_begin(const struct mr_csv_format *format, struct mr_string record)
{
    struct mr_csv_cursor c = {.at = record.data, .end = record.data + record.size};

    find_field(format, &c, format->lines);
    return c;
}

static int unquoted(const struct mr_csv_format *format, struct mr_csv_cursor *c,
                    struct mr_csv_field *ret, mr_error *err)
{
    const unsigned char *begin = c->at;
    const unsigned char *p = begin;

    for (; p < c->end && *p != format->delim; p++) {
        if (*p == '\n' || *p == '\r' || (*p == '"' && format->quotes)) {
            return mr_error_set(err, MR_EINVAL, "field %u has %s in it and is not in quotes",
                                c->field + 1, *p == '"' ? "a quote" : "an end of line");
        }
    }
    ret->text = (struct mr_string){begin, (size_t)(p - begin)};
    ret->doubled = false;
    c->at = p;
    return MR_OK;
}

static int quoted(const struct mr_csv_format *format, struct mr_csv_cursor *c,
                  struct mr_csv_field *ret, mr_error *err)
{
    const unsigned char *begin = c->at + 1;
    const unsigned char *p = begin;

    ret->doubled = false;
    for (;;) {
        const unsigned char *quote = p < c->end ? memchr(p, '"', (size_t)(c->end - p)) : NULL;

        if (quote == NULL) {
            return mr_error_set(err, MR_EINVAL, "field %u begins with a quote that nothing closes",
                                c->field + 1);
        }
        if (quote + 1 == c->end || quote[1] != '"') {
            ret->text = (struct mr_string){begin, (size_t)(quote - begin)};
            c->at = quote + 1;
            break;
        }
        ret->doubled = true;
        p = quote + 2;
    }
    if (c->at < c->end && *c->at != format->delim) {
        return mr_error_set(err, MR_EINVAL,
                            "field %u goes on behind the quote that closes it; a quote within is "
                            "written twice",
                            c->field + 1);
    }
    return MR_OK;
}

int mr_csv_next(const struct mr_csv_format *format, struct mr_csv_cursor *c,
                struct mr_csv_field *ret, mr_error *err)
{
    bool in_quotes = format->quotes && c->at < c->end && *c->at == '"';

    MR_ASSERT_SLOW(c->more);
    MR_TRY(in_quotes ? quoted(format, c, ret, err) : unquoted(format, c, ret, err));
    c->field++;
    c->more = c->at < c->end;
    if (c->more) {
        c->at++; /* the delimiter */
        find_field(format, c, true);
    }
    return MR_OK;
}

size_t mr_csv_halve(struct mr_string text, unsigned char *to)
{
    size_t n = 0;

    for (size_t i = 0; i < text.size; i++) {
        to[n++] = text.data[i];
        i += text.data[i] == '"'; /* the second one */
    }
    return n;
}
