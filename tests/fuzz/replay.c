/* Runs a fuzz target without a fuzzer: a file that is named, as it is; every file of a directory,
 * and a fixed number of seeded mutations of each (bytes changed, cut, doubled; or what the target's
 * own mutator does, mostly), of which MR_FUZZ_MUTATIONS says how many. MR_SEED replays a failing
 * run; what was being run is in the message of a crash, and its bytes are in $MR_FUZZ_KEEP. */
#include "base/rng.h"

#include "base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* A target may know how to change its inputs so that they still mean something. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t cap, unsigned seed)
    __attribute__((weak));

#define MUTATIONS_PER_FILE 200 /* by default */
#define INPUT_BYTES_MAX (1u << 20)
#define HANG_S 60 /* no input needs a hundredth of it */

static char current[8192];
static const uint8_t *input;
static size_t input_size;
static const char *keep; /* MR_FUZZ_KEEP: where to write an input that ends the program */

static void say_what_ran(int sig)
{
    int fd = keep != NULL ? open(keep, O_WRONLY | O_CREAT | O_TRUNC, 0644) : -1;

    (void)!write(STDERR_FILENO, current, strlen(current));
    if (fd >= 0) {
        (void)!write(fd, input, input_size);
    }
    signal(sig, SIG_DFL);
    raise(sig);
}

static uint8_t *read_whole(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(INPUT_BYTES_MAX);

    if (f == NULL || data == NULL) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    *len = fread(data, 1, INPUT_BYTES_MAX, f);
    fclose(f);
    return data;
}

/* @data has room for twice @len. */
static size_t mutate_bytes(struct mr_rng *rng, uint8_t *data, size_t len)
{
    uint64_t changes = 1 + mr_rng_below(rng, 4);

    for (; changes > 0 && len > 0; changes--) {
        size_t at = mr_rng_below(rng, len);
        size_t n = 1 + mr_rng_below(rng, len - at);

        switch (mr_rng_below(rng, 5)) {
        case 0: data[at] = (uint8_t)mr_rng_next(rng); break;
        case 1: data[at] ^= (uint8_t)(1u << mr_rng_below(rng, 8)); break;
        case 2: /* a length or a count of many */ data[at] = 0xff; break;
        case 3:
            memmove(data + at, data + at + n, len - at - n);
            len -= n;
            break;
        default: memmove(data + at, data + mr_rng_below(rng, len - n + 1), n); break;
        }
    }
    return len;
}

static size_t mutate(struct mr_rng *rng, uint8_t *data, size_t len, size_t cap)
{
    if (LLVMFuzzerCustomMutator != NULL && mr_rng_below(rng, 4) != 0) {
        return LLVMFuzzerCustomMutator(data, len, cap, (unsigned)mr_rng_next(rng));
    }
    return mutate_bytes(rng, data, len);
}

/* In memory of its exact size, so that a sanitizer sees the first byte too many. */
static void run_exact(const uint8_t *data, size_t len)
{
    uint8_t *copy = malloc(len == 0 ? 1 : len);

    if (copy == NULL) {
        abort();
    }
    memcpy(copy, data, len);
    input = copy;
    input_size = len;
    alarm(HANG_S);
    LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

static void run_file(const char *path, uint64_t seed, int mutations)
{
    size_t len;
    uint8_t *data = read_whole(path, &len);
    uint8_t *work = malloc(2 * len + 1);
    struct mr_rng rng;

    if (work == NULL) {
        abort();
    }
    mr_rng_seed(&rng, seed);
    snprintf(current, sizeof current, "fuzz: %s as it is\n", path);
    run_exact(data, len);
    for (int i = 0; i < mutations; i++) {
        snprintf(current, sizeof current, "fuzz: %s, MR_SEED=%" PRIu64 ", mutation %d\n", path,
                 seed, i);
        memcpy(work, data, len);
        run_exact(work, mutate(&rng, work, len, 2 * len));
    }
    free(work);
    free(data);
}

static int run_directory(const char *dir, uint64_t seed, int mutations)
{
    struct dirent **names = NULL;
    int n = scandir(dir, &names, NULL, alphasort);
    int files = 0;

    if (n < 0 && errno == ENOTDIR) {
        run_file(dir, seed, 0);
        return 1;
    }
    if (n < 0) {
        fprintf(stderr, "%s: no such corpus\n", dir);
        exit(1);
    }
    for (int i = 0; i < n; i++) {
        char path[4096];

        if (names[i]->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
            run_file(path, seed, mutations);
            files++;
        }
        free(names[i]);
    }
    free(names);
    return files;
}

int main(int argc, char **argv)
{
    const char *text = getenv("MR_SEED");
    uint64_t seed = text == NULL ? 1 : strtoull(text, NULL, 10);
    const char *many = getenv("MR_FUZZ_MUTATIONS");
    int mutations = many == NULL ? MUTATIONS_PER_FILE : atoi(many);
    int files = 0;

    keep = getenv("MR_FUZZ_KEEP");
    signal(SIGABRT, say_what_ran);
    signal(SIGSEGV, say_what_ran);
    signal(SIGALRM, say_what_ran);
    for (int i = 1; i < argc; i++) {
        files += run_directory(argv[i], seed, mutations);
    }
    if (files == 0) {
        fprintf(stderr, "no corpus was given\n");
        return 1;
    }
    printf("%d files, %d mutations each\n", files, mutations);
    return 0;
}
