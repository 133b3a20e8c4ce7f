/* Threads of a program with sessions of their own and one that they share, each of which computes on two threads. The argument is an
 * artifact with one input of f32. */
#include "expect.h"

#include <pthread.h>
#include <stdlib.h>

#define THREADS 3
#define RUNS 6

static const char *path;
static uint64_t shared;
static float *data;
static byoc_array input;
static int64_t shape[8];

static uint64_t session_on_two_threads(void) {
    uint64_t session = 0;
    byoc_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.threads = 2;
    WORKS(byoc_open(path, &options, &session));
    return session;
}

/* How many results were not the first one. */
static void *own(void *differ) {
    uint64_t session = session_on_two_threads();
    double first = 0;
    int run;
    for (run = 0; run < RUNS; run++) {
        double found;
        WORKS(byoc_run(session, &input, 1));
        found = sum(session);
        if (run == 0) {
            first = found;
        }
        *(int *)differ += found != first;
    }
    WORKS(byoc_close(session));
    return NULL;
}

static void *take_turns(void *unused) {
    int run;
    (void)unused;
    for (run = 0; run < RUNS; run++) {
        WORKS(byoc_run(shared, &input, 1));
    }
    return NULL;
}

static void all(void *(*work)(void *), int *differ) {
    pthread_t threads[THREADS];
    int index;
    for (index = 0; index < THREADS; index++) {
        pthread_create(&threads[index], NULL, work, &differ[index]);
    }
    for (index = 0; index < THREADS; index++) {
        pthread_join(threads[index], NULL);
    }
}

int main(int count, char **arguments) {
    byoc_port port;
    size_t elements = 1, index;
    int differ[THREADS] = {0};
    if (count != 2) {
        return 2;
    }
    path = arguments[1];
    shared = session_on_two_threads();
    WORKS(byoc_input_port(shared, 0, &port));
    for (index = 0; index < (size_t)port.rank && index < 8; index++) {
        shape[index] = port.shape[index];
        elements *= (size_t)shape[index];
    }
    data = (float *)malloc(elements * sizeof(float));
    for (index = 0; index < elements; index++) {
        data[index] = (float)(index % 13) / 13;
    }
    memset(&input, 0, sizeof input);
    input.data = data;
    input.bytes = elements * sizeof(float);
    input.element = BYOC_F32;
    input.rank = port.rank;
    input.shape = shape;
    all(own, differ);
    all(take_turns, differ);
    WORKS(byoc_close(shared));
    for (index = 0; index < THREADS; index++) {
        wrong += differ[index];
    }
    free(data);
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
