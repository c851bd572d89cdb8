/* Whatever the JSON parser accepts, it writes, and what it has written it reads and writes again as
 * the same bytes. The quick way and the other one agree: a space in front of the text is enough to
 * go the other one. */
#include "json/pbjson.h"

#include "base/base.h"

#include <pbjson_test.pb-c.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ProtobufCMessage *parse_behind_space(const uint8_t *data, size_t size)
{
    ProtobufCMessage *msg = NULL;
    char *text = mr_malloc(size + 1);

    if (text == NULL) {
        abort();
    }
    text[0] = ' ';
    memcpy(text + 1, data, size);
    (void)mr_pbjson_parse(&pbjson_test__kinds__descriptor, text, size + 1, &msg, NULL);
    mr_free(text);
    return msg;
}

static void check_same_text(const ProtobufCMessage *msg, const char *text)
{
    char *other = NULL;

    if (msg == NULL || mr_pbjson_write(msg, &other, NULL, NULL) < 0 || strcmp(text, other) != 0) {
        abort();
    }
    mr_free(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ProtobufCMessage *msg = NULL;
    ProtobufCMessage *again = NULL;
    ProtobufCMessage *other = parse_behind_space(data, size);
    char *text = NULL;
    size_t len;

    if (mr_pbjson_parse(&pbjson_test__kinds__descriptor, (const char *)data, size, &msg, NULL) <
        0) {
        if (other != NULL) {
            abort();
        }
        return 0;
    }
    if (mr_pbjson_write(msg, &text, &len, NULL) < 0 ||
        mr_pbjson_parse(&pbjson_test__kinds__descriptor, text, len, &again, NULL) < 0) {
        abort();
    }
    check_same_text(again, text);
    check_same_text(other, text);
    protobuf_c_message_free_unpacked(msg, NULL);
    protobuf_c_message_free_unpacked(again, NULL);
    protobuf_c_message_free_unpacked(other, NULL);
    mr_free(text);
    return 0;
}
