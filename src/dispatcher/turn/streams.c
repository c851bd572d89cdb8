#include "dispatcher/turn/streams.h"

void mr_dstream_init(struct mr_dstream *d, const struct mr_dstream_ops *ops,
                     const struct mr_method *method)
{
    *d = (struct mr_dstream){.ops = ops, .method = method, .refs = 1};
    STAILQ_INIT(&d->line);
}

static void drop_first(struct mr_dstream *d)
{
    struct mr_dmessage *first = STAILQ_FIRST(&d->line);

    STAILQ_REMOVE_HEAD(&d->line, link);
    d->line_bytes -= first->bytes.len;
    mr_buf_free(&first->bytes);
    mr_free(first);
}

static void clear_line(struct mr_dstream *d)
{
    while (!STAILQ_EMPTY(&d->line)) {
        drop_first(d);
    }
}

void mr_dstream_unref(struct mr_dstream *d)
{
    if (--d->refs > 0) {
        return;
    }
    MR_ASSERT(!d->subscribed);
    clear_line(d);
    d->ops->release(d);
}

static void send_now(struct mr_dstream *d)
{
    const struct mr_buf *first = &STAILQ_FIRST(&d->line)->bytes;

    d->busy = d->ops->send(d, first->data, first->len);
    drop_first(d);
}

static void finish_now(struct mr_dstream *d)
{
    if (!d->finished && !d->ended) {
        d->finished = true;
        d->ops->finish(d, d->finish_code, d->finish_message);
    }
}

/* Takes the bytes of @message. */
static bool line_up(struct mr_dstream *d, struct mr_buf *message)
{
    struct mr_dmessage *last = mr_calloc(1, sizeof *last);

    if (last == NULL) {
        return false;
    }
    last->bytes = *message;
    *message = (struct mr_buf)MR_BUF_INIT;
    d->line_bytes += last->bytes.len;
    STAILQ_INSERT_TAIL(&d->line, last, link);
    return true;
}

void mr_dstream_send(struct mr_dstream *d, struct mr_buf *message)
{
    if (d->ended || d->finishing) {
        mr_buf_free(message);
        return;
    }
    if (message->failed || !line_up(d, message)) {
        mr_buf_free(message);
        mr_dstream_finish(d, MR_EEXHAUSTED, "out of memory");
        return;
    }
    if (!d->busy) {
        send_now(d);
    } else if (d->line_bytes > MR_STREAM_BYTES_MAX) {
        clear_line(d);
        mr_dstream_finish(d, MR_EUNAVAIL, "the watcher is too slow for what changes");
    }
}

void mr_dstream_finish(struct mr_dstream *d, int code, const char *message)
{
    if (d->finishing) {
        return;
    }
    d->finishing = true;
    d->finish_code = code;
    (void)snprintf(d->finish_message, sizeof d->finish_message, "%s", message);
    if (!d->busy) {
        finish_now(d);
    }
}

void mr_dstream_sent(struct mr_dstream *d)
{
    d->busy = false;
    if (!STAILQ_EMPTY(&d->line) && !d->ended) {
        send_now(d);
    } else if (d->finishing) {
        finish_now(d);
    }
}

struct mr_dstream *mr_streams_of(const struct mr_streams *all, const char *topic)
{
    return mr_map_get(&all->topics, topic);
}

int mr_streams_subscribe(struct mr_streams *all, struct mr_dstream *d, const char *topic,
                         const char *client, mr_error *err)
{
    MR_ASSERT(!d->subscribed);
    if (strlen(topic) >= sizeof d->topic ||
        (client != NULL && strlen(client) >= sizeof d->client)) {
        return mr_error_set(err, MR_EINVAL, "an id of more than %zu bytes", sizeof d->topic - 1);
    }
    (void)snprintf(d->topic, sizeof d->topic, "%s", topic);
    (void)snprintf(d->client, sizeof d->client, "%s", client != NULL ? client : "");
    d->topic_next = mr_streams_of(all, topic);
    MR_TRY(mr_map_put(&all->topics, d->topic, d, err)); /* The key is the newest stream's own. */
    d->subscribed = true;
    LIST_INSERT_HEAD(&all->all, d, link);
    return MR_OK;
}

void mr_streams_unsubscribe(struct mr_streams *all, struct mr_dstream *d)
{
    struct mr_dstream *first = mr_streams_of(all, d->topic);

    if (!d->subscribed) {
        return;
    }
    d->subscribed = false;
    if (first == d) {
        (void)mr_map_remove(&all->topics, d->topic);
        if (d->topic_next != NULL) {
            int rc = mr_map_put(&all->topics, d->topic_next->topic, d->topic_next, NULL);

            MR_ASSERT(rc >= 0); /* A slot has just become free. */
        }
    } else {
        while (first->topic_next != d) {
            first = first->topic_next;
        }
        first->topic_next = d->topic_next;
    }
    LIST_REMOVE(d, link);
}

void mr_streams_ended(struct mr_streams *all, struct mr_dstream *d)
{
    d->ended = true;
    mr_streams_unsubscribe(all, d);
    mr_dstream_unref(d);
}

void mr_streams_free(struct mr_streams *all)
{
    MR_ASSERT(LIST_EMPTY(&all->all));
    mr_map_free(&all->topics);
}
