/* Whatever the JSON parser accepts, it writes, and what it has written it reads and writes again as the same bytes. */
#include "json/pbjson.h"

#include <millrace/dataset.h> /* mr_free */
#include <pbjson_test.pb-c.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ProtobufCMessage *msg = NULL;
    ProtobufCMessage *again = NULL;
    char *text = NULL;
    char *text_again = NULL;
    size_t len;

    if (mr_pbjson_parse(&pbjson_test__kinds__descriptor, (const char *)data, size, &msg, NULL) < 0) {
        return 0;
    }
    if (mr_pbjson_write(msg, &text, &len, NULL) < 0 ||
        mr_pbjson_parse(&pbjson_test__kinds__descriptor, text, len, &again, NULL) < 0 ||
        mr_pbjson_write(again, &text_again, NULL, NULL) < 0 || strcmp(text, text_again) != 0) {
        abort();
    }
    protobuf_c_message_free_unpacked(msg, NULL);
    protobuf_c_message_free_unpacked(again, NULL);
    mr_free(text);
    mr_free(text_again);
    return 0;
}
