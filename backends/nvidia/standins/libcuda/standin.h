/* A stand-in for NVIDIA's driver library, for tests on machines without a GPU.
 *
 * It has the functions that backends call (backends/nvidia/src/locate/library.rs), with device memory in host memory.
 * Copies, fills and the work of other stand-ins really happen, in the order of the calls. Launches are checked
 * against the limits of a compute capability of 9.0 and logged. Kernels of the stand-in for NVRTC run, on the host; an invalid access, such as writing outside of all allocations, breaks the device. Others are not run: of them it cannot
 * show that they compute the right thing or load at all. Of all, it cannot show races and speed.
 *
 * It is strict where a real driver may let a mistake pass: every pointer must be in a live allocation, also when a
 * graph is launched, a context must be current and retained, also to give back what belongs to it, and a thread that
 * captures a stream must not allocate, synchronise or load: what it captures is lost then. Each piece of work takes a
 * millisecond, as events tell. When a context is released for the last time, a line of the log says what was not given
 * back.
 *
 * Settings, read from the environment:
 *   STANDIN_LOG      a file to which one line is appended for each thing that happened
 *   STANDIN_DRIVER   what cuDriverGetVersion says; 13000
 *   STANDIN_INIT     what cuInit returns; 0
 *   STANDIN_CAPABILITY  ten times the major compute capability and the minor one; 90
 *   STANDIN_DEVICES  how many devices there are; 1
 *   STANDIN_LOST     the ordinal of a device that cannot be asked its name; none
 *   STANDIN_MEMORY   bytes of memory on each; 1 GiB
 *   STANDIN_GRAPHS   how many graphs can be made fit to launch; no limit
 *   STANDIN_FAULT    the n-th piece of work, counted from 1, fails on the device; none
 * A function is left out by renaming it: cc -DcuGraphUpload=left_out.
 *
 * Compile: cc -std=c11 -shared -fPIC -Wl,-soname,libcuda.so.1 -o libcuda.so.1 *.c -pthread -ldl */

#ifndef STANDIN_H
#define STANDIN_H

#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of cuda.h. */
enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY = 209,
    INVALID_HANDLE = 400,
    ILLEGAL_STATE = 401,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURED_EVENT = 907,
    CAPTURE_WRONG_THREAD = 908,
};

enum { MOST_DEVICES = 8, MOST_THREADS = 1024, MOST_SHARED = 232448, SHARED = 49152, EM_OF_CUDA = 190 };

/* What a context has beside memory of its device. */
enum { HOST_MEMORY, STREAMS, EVENTS, GRAPHS, KINDS };

struct context {
    int device;
    int retained;
    uint64_t used;
    int live[KINDS];
};

/* What an allocation is. */
enum { ON_DEVICE, ON_HOST, OF_MODULE };

struct allocation {
    char *at;
    size_t bytes;
    struct context *context;
    int kind;
    struct allocation *next;
};

/* A piece of work on a stream. */
struct job {
    void (*run)(const void *data);
    char text[240];
    struct job *next;
    size_t bytes;
    unsigned char data[];
};

struct graph {
    struct context *context;
    struct job *first, **end;
    int jobs;
};

struct stream {
    struct context *context;
    struct graph *capture;
    const int *thread; /* the capturing thread's `captures` */
    int refused;       /* its `refused` when the capture began */
};

struct event {
    struct context *context;
    int recorded, captured;
    long work; /* how many pieces of work were done before it */
};

/* A kernel that runs on the host: what it is in cpu/launch.h. */
struct kernel {
    void (*call)(void *const *parameters);
    unsigned parameters;
    const unsigned *sizes;
};

/* Runs a launch. Null, or what went wrong. */
typedef const char *launch(const struct kernel *, const unsigned *grid, const unsigned *block, unsigned long shared,
                           void *const *parameters);

struct symbol {
    char *name;
    int kind; /* STT_FUNC or STT_OBJECT */
    uint64_t device;
    size_t bytes;
    int shared; /* how much dynamic shared memory a launch may ask for */
    const struct kernel *kernel; /* null where the module does not run */
    struct module *module;
    struct symbol *next;
};

struct module {
    struct symbol *symbols;
    void *library; /* null where it does not run */
    int file;      /* the library's, whose number is its name */
    launch *launch;
};

/* For the other stand-ins too. */

void standin_log(const char *format, ...);
int standin_is_device_memory(const void *at, size_t bytes);
int standin_enqueue(void *stream, void (*run)(const void *data), const void *data, size_t bytes, const char *text);

/* For the files of this one. */

#pragma GCC visibility push(hidden)

/* Whether cuInit has succeeded, and the failure of a device that broke. */
extern int initialized, broken;
/* The thread's context, how many streams it captures, and how many calls were refused because it does. */
extern __thread struct context *current;
extern __thread int captures, refused;

long long setting(const char *name, long long otherwise);
int ready(void);
int ready_outside_capture(const char *call);
void fault(const char *text);
int allocate(void **at, size_t bytes, int on_host);
int release(void *at, int on_host);
void adopt(void *at, size_t bytes);
int is_host_object(const void *image);
int open_on_host(struct module *module, const void *image);
void close_on_host(struct module *module);
int enqueue_on_host(const struct symbol *function, const unsigned *grid, const unsigned *block, unsigned shared,
                    struct stream *stream, void **parameters, const char *text);
const char *written_outside(void);

#pragma GCC visibility pop

#define READY() do { int status_ = ready(); if (status_) return status_; } while (0)
#define READY_OUTSIDE_CAPTURE(call) do { int status_ = ready_outside_capture(call); if (status_) return status_; } while (0)

#endif
