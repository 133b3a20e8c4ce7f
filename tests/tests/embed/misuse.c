/* What a program may do wrong: each is a code, and the session goes on. Also threads, and artifacts in memory. The first argument is an
 * artifact of y = relu(x w + b) with x: f32[2,3] and y: f32[2,4]; the second one is a file that is none, the third one has the
 * variants 'first' and 'second'. */
#include "expect.h"
/* Both headers in one program. */
#include <byoc_plugin.h>

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

static const int64_t shape[2] = {2, 3};
static const float ones[6] = {1, 1, 1, 1, 1, 1};

static byoc_array input(void) {
    byoc_array array;
    memset(&array, 0, sizeof array);
    array.data = ones;
    array.bytes = sizeof ones;
    array.element = BYOC_F32;
    array.rank = 2;
    array.shape = shape;
    return array;
}

static void *work(void *path) {
    int turn;
    for (turn = 0; turn < 20; turn++) {
        uint64_t session = 0;
        byoc_array array = input();
        double first;
        WORKS(byoc_open((const char *)path, NULL, &session));
        WORKS(byoc_run(session, &array, 1));
        first = sum(session);
        WORKS(byoc_run(session, &array, 1));
        if (first != sum(session)) {
            wrong++;
        }
        WORKS(byoc_close(session));
    }
    return NULL;
}

/* An artifact that a function reads, and how it is to fail. */
struct source {
    const char *bytes;
    uint64_t next;
    int fails;
};

static int read_source(void *user, uint64_t offset, void *buffer, size_t size) {
    struct source *source = (struct source *)user;
    if (source->fails || offset != source->next) {
        return 5;
    }
    memcpy(buffer, source->bytes + offset, size);
    source->next += size;
    return 0;
}

static uint64_t shared;

/* Turns at one session; the result is not looked at, since another thread may run. */
static void *share(void *unused) {
    int turn;
    (void)unused;
    for (turn = 0; turn < 50; turn++) {
        byoc_array array = input();
        WORKS(byoc_run(shared, &array, 1));
    }
    return NULL;
}

int main(int count, char **arguments) {
    uint64_t session = 0, other = 0;
    size_t number = 0;
    byoc_port port;
    byoc_array array = input(), found;
    byoc_options options;
    pthread_t threads[4];
    int index;
    double expected;

    if (count != 4) {
        return 2;
    }
    if (byoc_error_code() != NULL || byoc_error_message() != NULL || byoc_error_hint() != NULL) {
        wrong++;
    }
    if (strlen(byoc_version()) < 5) {
        wrong++;
    }
    FAILS("B901", byoc_open(NULL, NULL, &session));
    FAILS("B901", byoc_open(arguments[1], NULL, NULL));
    FAILS("B901", byoc_open("\xff", NULL, &session));
    FAILS("B601", byoc_open("/nowhere/at.all", NULL, &session));
    FAILS("B602", byoc_open(arguments[2], NULL, &session));
    FAILS("B901", byoc_close(0));
    FAILS("B901", byoc_input_count(77, &number));

    memset(&options, 0, sizeof options);
    FAILS("B901", byoc_open(arguments[1], &options, &session));
    options.struct_size = sizeof options;
    options.plugin_count = 1;
    FAILS("B901", byoc_open(arguments[1], &options, &session));
    options.plugin_count = 0;
    options.entry = "other";
    FAILS("B702", byoc_open(arguments[1], &options, &session));
    options.entry = "main";
    options.threads = 1;
    WORKS(byoc_open(arguments[1], &options, &session));

    /* A program of before has no later fields of the options; one of later has fields that this library does not know. */
    {
        const char *variant = "none";
        byoc_options earlier = options;
        WORKS(byoc_variant(session, &variant));
        if (variant != NULL) {
            wrong++;
        }
        FAILS("B901", byoc_variant(session, NULL));
        FAILS("B901", byoc_variant(77, &variant));
        earlier.struct_size = offsetof(byoc_options, variant);
        earlier.variant = "what is behind the end is not read";
        WORKS(byoc_open(arguments[3], &earlier, &other));
        WORKS(byoc_variant(other, &variant));
        if (variant == NULL || strcmp(variant, "first") != 0) {
            wrong++;
        }
        WORKS(byoc_close(other));
        earlier.struct_size = offsetof(byoc_options, isolate_by);
        earlier.variant = "second";
        earlier.isolate_by = "what is behind the end is not read";
        WORKS(byoc_open(arguments[3], &earlier, &other));
        WORKS(byoc_close(other));
        earlier.struct_size = offsetof(byoc_options, variant) + 4;
        FAILS("B901", byoc_open(arguments[3], &earlier, &other));
        earlier.struct_size = sizeof earlier + 8;
        FAILS("B901", byoc_open(arguments[3], &earlier, &other));
        options.variant = "second";
        WORKS(byoc_open(arguments[3], &options, &other));
        WORKS(byoc_variant(other, &variant));
        if (variant == NULL || strcmp(variant, "second") != 0) {
            wrong++;
        }
        WORKS(byoc_close(other));
        options.variant = "third";
        FAILS("B702", byoc_open(arguments[3], &options, &other));
        options.variant = NULL;
    }

    WORKS(byoc_input_count(session, &number));
    FAILS("B901", byoc_input_count(session, NULL));
    FAILS("B901", byoc_input_port(session, number, &port));
    FAILS("B901", byoc_output_port(session, 0, NULL));
    WORKS(byoc_input_port(session, 0, &port));
    if (number != 1 || strcmp(port.name, "x") != 0 || port.element != BYOC_F32 || port.rank != 2 || port.shape[0] != 2 || port.shape[1] != 3) {
        wrong++;
    }
    FAILS("B703", byoc_result(session, 0, &found));
    FAILS("B701", byoc_run(session, NULL, 0));
    FAILS("B901", byoc_run(session, NULL, 1));
    array.data = NULL;
    FAILS("B901", byoc_run(session, &array, 1));
    array = input();
    array.bytes = 5;
    FAILS("B701", byoc_run(session, &array, 1));
    array = input();
    array.element = 99;
    FAILS("B701", byoc_run(session, &array, 1));
    array.element = BYOC_I32;
    FAILS("B701", byoc_run(session, &array, 1));
    array = input();
    array.rank = -1;
    FAILS("B701", byoc_run(session, &array, 1));
    array = input();
    WORKS(byoc_run(session, &array, 1));
    FAILS("B901", byoc_result(session, 1, &found));
    expected = sum(session);

    /* What the session gave is an input of the next run: y is f32[2,4], of which a part is f32[2,3]. */
    {
        float kept[6], again[8];
        byoc_array back = input();
        WORKS(byoc_result(session, 0, &found));
        memcpy(kept, found.data, sizeof kept);
        back.data = found.data;
        WORKS(byoc_run(session, &back, 1));
        WORKS(byoc_result(session, 0, &found));
        memcpy(again, found.data, sizeof again);
        back.data = kept;
        WORKS(byoc_run(session, &back, 1));
        WORKS(byoc_result(session, 0, &found));
        if (memcmp(again, found.data, sizeof again) != 0) {
            wrong++;
        }
        WORKS(byoc_run(session, &array, 1));
    }

    /* The same file in memory. */
    {
        FILE *file = fopen(arguments[1], "rb");
        char *bytes;
        size_t length;
        fseek(file, 0, SEEK_END);
        length = (size_t)ftell(file);
        rewind(file);
        bytes = (char *)aligned_alloc(4096, (length + 4096) / 4096 * 4096 + 4096);
        if (fread(bytes, 1, length, file) != length) {
            wrong++;
        }
        fclose(file);
        FAILS("B901", byoc_open_memory(bytes + 1, length, NULL, &other));
        FAILS("B901", byoc_open_memory(NULL, length, NULL, &other));
        FAILS("B602", byoc_open_memory(bytes, length - 1, NULL, &other));
        WORKS(byoc_open_memory(bytes, length, NULL, &other));
        WORKS(byoc_run(other, &array, 1));
        if (sum(other) != expected) {
            wrong++;
        }
        WORKS(byoc_close(other));
        {
            struct source source = {bytes, 0, 0}, failing = {bytes, 0, 1};
            FAILS("B901", byoc_open_with(NULL, &source, length, NULL, &other));
            FAILS("B901", byoc_open_with(read_source, &source, length, NULL, NULL));
            FAILS("B601", byoc_open_with(read_source, &failing, length, NULL, &other));
            FAILS("B602", byoc_open_with(read_source, &source, 0, NULL, &other));
            FAILS("B601", byoc_open_with(read_source, &source, SIZE_MAX, NULL, &other));
            WORKS(byoc_open_with(read_source, &source, length, NULL, &other));
            if (source.next != length) {
                wrong++;
            }
            WORKS(byoc_run(other, &array, 1));
            if (sum(other) != expected) {
                wrong++;
            }
            WORKS(byoc_close(other));
        }
        free(bytes);
    }
    for (index = 0; index < 4; index++) {
        pthread_create(&threads[index], NULL, work, arguments[1]);
    }
    for (index = 0; index < 4; index++) {
        pthread_join(threads[index], NULL);
    }
    shared = session;
    for (index = 0; index < 4; index++) {
        pthread_create(&threads[index], NULL, share, NULL);
    }
    for (index = 0; index < 4; index++) {
        pthread_join(threads[index], NULL);
    }
    WORKS(byoc_close(session));
    FAILS("B901", byoc_close(session));
    FAILS("B901", byoc_run(session, &array, 1));
    printf("%d wrong, sum %g\n", wrong, expected);
    return wrong != 0;
}
