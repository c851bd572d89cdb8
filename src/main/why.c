/* millrace job why: what bounds a job, in one line, and what else its time goes to, as a table. */
#include "main/why.h"

#include "base/base.h"
#include "main/output.h"

#include <inttypes.h>
#include <jansson.h>

/* Of what others say, a text that may be shown. */
static void say(struct mr_buf *out, json_t *of, const char *key, const char *before,
                const char *after)
{
    const char *text = json_string_value(json_object_get(of, key));

    if (text != NULL && text[0] != '\0') {
        mr_buf_printf(out, "%s", before);
        output_safe(out, text, strlen(text));
        mr_buf_printf(out, "%s", after);
    }
}

/* A number of canonical JSON: of 32 bits. */
static unsigned percent_of(json_t *of)
{
    json_int_t permille = json_integer_value(json_object_get(of, "permille"));

    return permille < 0 || permille > 1000 ? 0 : (unsigned)(permille + 5) / 10;
}

static bool is_known(json_t *why)
{
    return json_object_get(why, "bound") != NULL;
}

static void say_verdict(json_t *why, struct mr_buf *out)
{
    if (why == NULL) {
        mr_buf_printf(out, "nobody reads it\n");
        return;
    }
    if (!is_known(why)) {
        say(out, why, "advice", "", "\n");
        return;
    }
    say(out, why, "bound", "bound by ", "");
    say(out, why, "operator", ": ", "");
    say(out, why, "place", ", ", "");
    mr_buf_printf(out, ", %u %% of its readers' time", percent_of(why));
    say(out, why, "advice", ": ", "");
    mr_buf_printf(out, "\n");
}

static void say_parts(json_t *why, struct mr_buf *out)
{
    json_t *parts = json_object_get(why, "parts"), *one;
    size_t i;

    if (json_array_size(parts) > 0) {
        mr_buf_printf(out, "    TIME  BOUND     OPERATOR\n");
    }
    json_array_foreach(parts, i, one)
    {
        const char *bound = json_string_value(json_object_get(one, "bound"));
        size_t width = bound == NULL ? 0 : strlen(bound);

        mr_buf_printf(out, "  %4u %%  ", percent_of(one));
        say(out, one, "bound", "", "");
        mr_buf_printf(out, "%*s", (int)(width < 10 ? 10 - width : 1), "");
        say(out, one, "operator", "", "");
        while (out->len > 0 && out->data[out->len - 1] == ' ') {
            out->len--;
        }
        mr_buf_printf(out, "\n");
    }
}

static void say_job(json_t *job, struct mr_buf *out)
{
    json_t *why = json_object_get(job, "why");

    mr_buf_printf(out, "job ");
    say(out, job, json_object_get(job, "name") != NULL ? "name" : "id", "", "");
    say(out, job, "trainer", "+", "");
    mr_buf_printf(out, ": ");
    say_verdict(why, out);
    say_parts(why, out);
}

void why_render(const json_t *picked, struct mr_buf *out)
{
    json_t *job;
    size_t i;

    json_array_foreach(json_object_get(picked, "jobs"), i, job)
    {
        say_job(job, out);
    }
}
