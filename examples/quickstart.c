/*
 * A dataset through the C API: the squares of 0..999, summed; here, or by the workers of a service.
 *
 *     cc quickstart.c -o quickstart $(pkg-config --cflags --libs millrace)    # with CMake: CMakeLists.txt
 *     ./quickstart [grpc://host:port,...]
 */
#include <millrace/dataset.h>
#include <millrace/iterator.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* x * x, of the one number that an element is. */
static int new_square(const mr_dataset *ds, mr_function **ret, mr_error *err)
{
    const uint32_t twice[] = {0, 0}; /* value 0 is the argument */
    mr_builder *b = NULL;
    uint32_t product;
    size_t n;
    int rc = mr_builder_new(mr_dataset_spec(ds), NULL, &b, err);

    if (rc == MR_OK) {
        rc = mr_builder_add(b, "mul", twice, 2, NULL, 0, NULL, 0, &product, 1, &n, err);
    }
    if (rc == MR_OK) {
        rc = mr_builder_finish(b, &product, 1, NULL, ret, err);
    }
    mr_builder_free(b);
    return rc;
}

/* range(1000).map(x * x), distributed unless @service is NULL. Operators and arguments:
 * docs/use/operators.md. */
static int new_squares(const char *service, mr_dataset **ret, mr_error *err)
{
    const struct mr_attr range[] = {{.name = "start", .kind = MR_ATTR_INT, .i = 0},
                                    {.name = "stop", .kind = MR_ATTR_INT, .i = 1000},
                                    {.name = "step", .kind = MR_ATTR_INT, .i = 1}};
    const struct mr_attr job[] = {{.name = "service",
                                   .kind = MR_ATTR_BYTES,
                                   .bytes = service,
                                   .size = service == NULL ? 0 : strlen(service)},
                                  {.name = "processing_mode",
                                   .kind = MR_ATTR_BYTES,
                                   .bytes = "DYNAMIC",
                                   .size = strlen("DYNAMIC")}};
    mr_dataset *numbers = NULL;
    mr_dataset *squares = NULL;
    mr_function *square = NULL;
    int rc = mr_dataset_apply("range", NULL, 0, range, 3, NULL, 0, NULL, &numbers, err);

    if (rc == MR_OK) {
        rc = new_square(numbers, &square, err);
    }
    if (rc == MR_OK) {
        rc = mr_dataset_apply("map", &numbers, 1, NULL, 0, &square, 1, NULL, &squares, err);
    }
    if (rc == MR_OK && service != NULL) {
        rc = mr_dataset_apply("distribute", &squares, 1, job, 2, NULL, 0, NULL, ret, err);
    } else if (rc == MR_OK) {
        *ret = mr_dataset_ref(squares);
    }
    mr_dataset_unref(numbers);
    mr_dataset_unref(squares);
    mr_function_unref(square);
    return rc;
}

static int sum(mr_dataset *ds, int64_t *ret, mr_error *err)
{
    mr_iterator *it = NULL;
    struct mr_element element;
    int64_t total = 0;
    int rc = mr_iterator_open(ds, NULL, &it, err);

    while (rc == MR_OK && (rc = mr_iterator_next(it, &element, err)) == MR_OK) {
        const int64_t *values = mr_block_column(element.block, 0)->data;

        total += values[element.row];
    }
    mr_iterator_free(it);
    if (rc != MR_END) {
        return rc;
    }
    *ret = total;
    return MR_OK;
}

int main(int argc, char **argv)
{
    mr_dataset *squares = NULL;
    mr_error err;
    int64_t total;
    int rc = new_squares(argc > 1 ? argv[1] : NULL, &squares, &err);

    if (rc == MR_OK) {
        rc = sum(squares, &total, &err);
    }
    mr_dataset_unref(squares);
    if (rc < 0) {
        fprintf(stderr, "quickstart: %s\n", err.message);
        return 1;
    }
    printf("%" PRId64 "\n", total);
    return 0;
}
