/* What the log says of an endpoint of etcd that failed. */
#include "coord/etcd/internal.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void only_another_endpoint_is_the_next(void **state)
{
    mr_error silent = {.message = "deadline exceeded"};
    mr_error refused = {.message = "connect: Connection refused (111)"};

    assert_string_equal(mr_etcd_conn_trouble(&silent, 1),
                        "etcd endpoint does not answer, trying it again");
    assert_string_equal(mr_etcd_conn_trouble(&silent, 3),
                        "etcd endpoint does not answer, trying the next");
    assert_string_equal(mr_etcd_conn_trouble(&refused, 1),
                        "etcd endpoint refuses connections, trying it again");
    assert_string_equal(mr_etcd_conn_trouble(&refused, 3),
                        "etcd endpoint refuses connections, trying the next");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_another_endpoint_is_the_next)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
