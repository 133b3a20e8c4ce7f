/* Device memory, which is host memory here, and copies. */

#include "standin.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct allocation *allocations;

/* Guard bytes before and after an allocation. Nothing may rely on the content of new memory: as floats of any type, these
 * bytes are NaN. */
enum { AROUND = 256, UNWRITTEN = 0xFF };

static size_t room(size_t bytes) { return AROUND + (bytes + 255) / 256 * 256 + AROUND; }

/* Whether the bytes are in one live allocation of a device. */
int standin_is_device_memory(const void *at, size_t bytes) {
    int found = 0;
    pthread_mutex_lock(&lock);
    for (struct allocation *a = allocations; a && !found; a = a->next)
        found = a->kind != ON_HOST && (char *)at >= a->at && (char *)at + bytes <= a->at + a->bytes;
    pthread_mutex_unlock(&lock);
    return found;
}

int allocate(void **at, size_t bytes, int on_host) {
    uint64_t most = (uint64_t)setting("STANDIN_MEMORY", 1LL << 30);
    int status = SUCCESS;
    if (bytes == 0) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct allocation *new = malloc(sizeof *new);
    *new = (struct allocation){NULL, bytes, current, on_host ? ON_HOST : ON_DEVICE, allocations};
    char *base = NULL;
    if (on_host || (bytes <= most && current->used <= most - bytes)) base = aligned_alloc(256, room(bytes));
    if (base) {
        memset(base, UNWRITTEN, room(bytes));
        new->at = base + AROUND;
        if (on_host) current->live[HOST_MEMORY]++;
        else current->used += bytes;
        allocations = new;
        *at = new->at;
    } else {
        free(new);
        status = OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&lock);
    standin_log("allocate %zu%s%s", bytes, on_host ? " on the host" : "", status ? ": out of memory" : "");
    return status;
}

int release(void *at, int on_host) {
    int status = INVALID_VALUE;
    size_t bytes = 0;
    pthread_mutex_lock(&lock);
    for (struct allocation **a = &allocations; *a && status; a = &(*a)->next) {
        struct allocation *found = *a;
        if (found->at != at || (found->kind == ON_HOST) != on_host) continue;
        if (on_host) found->context->live[HOST_MEMORY]--;
        else if (found->kind == ON_DEVICE) found->context->used -= found->bytes;
        bytes = found->bytes;
        *a = found->next;
        if (found->kind != OF_MODULE) free(found->at - AROUND);
        free(found);
        status = SUCCESS;
        break;
    }
    pthread_mutex_unlock(&lock);
    standin_log("free %zu%s%s", bytes, on_host ? " on the host" : "", status ? ": no allocation" : "");
    return status;
}

/* Makes a module's variable memory of the device, until it is released. */
void adopt(void *at, size_t bytes) {
    pthread_mutex_lock(&lock);
    struct allocation *new = malloc(sizeof *new);
    *new = (struct allocation){at, bytes, current, OF_MODULE, allocations};
    allocations = new;
    pthread_mutex_unlock(&lock);
}

/* Describes a write closely before or after an allocation; null if there was none. */
const char *written_outside(void) {
    static char text[80];
    const char *said = NULL;
    pthread_mutex_lock(&lock);
    for (struct allocation *a = allocations; a && !said; a = a->next) {
        if (a->kind == OF_MODULE) continue;
        const unsigned char *at = (unsigned char *)a->at;
        for (long i = -AROUND; i < (long)(room(a->bytes) - AROUND) && !said; i++) {
            if (i == 0) i = (long)a->bytes;
            if (at[i] == UNWRITTEN) continue;
            snprintf(text, sizeof text, "a write to byte %ld of an allocation of %zu", i, a->bytes);
            said = text;
        }
    }
    pthread_mutex_unlock(&lock);
    return said;
}

int cuMemAlloc_v2(uint64_t *pointer, size_t bytes) {
    READY_OUTSIDE_CAPTURE("allocate");
    return allocate((void **)pointer, bytes, 0);
}

int cuMemAllocAsync(uint64_t *pointer, size_t bytes, struct stream *stream) {
    (void)stream;
    READY_OUTSIDE_CAPTURE("allocate");
    return allocate((void **)pointer, bytes, 0);
}

int cuMemFree_v2(uint64_t pointer) {
    READY_OUTSIDE_CAPTURE("free");
    return release((void *)pointer, 0);
}

int cuMemFreeAsync(uint64_t pointer, struct stream *stream) {
    (void)stream;
    READY_OUTSIDE_CAPTURE("free");
    return release((void *)pointer, 0);
}

int cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
    (void)flags;
    READY_OUTSIDE_CAPTURE("allocate");
    return allocate(pointer, bytes, 1);
}

int cuMemFreeHost(void *pointer) {
    READY_OUTSIDE_CAPTURE("free");
    return release(pointer, 1);
}

int cuMemGetInfo_v2(size_t *unused, size_t *total) {
    READY();
    *total = (size_t)setting("STANDIN_MEMORY", 1LL << 30);
    *unused = *total - current->used;
    return SUCCESS;
}

struct copy {
    void *to;
    const void *from;
    size_t bytes;
    int devices; /* bit 0: `to` is a device's memory, bit 1: `from` is */
};

/* Whether what is a device's memory is live. */
static int is_live(const struct copy *copy) {
    return (!(copy->devices & 1) || standin_is_device_memory(copy->to, copy->bytes)) &&
           (!(copy->devices & 2) || standin_is_device_memory(copy->from, copy->bytes));
}

static void run_copy(const void *data) {
    const struct copy *copy = data;
    if (!is_live(copy)) fault("a copy of memory that was freed");
    else memmove(copy->to, copy->from, copy->bytes);
}

static int copy(const char *what, void *to, const void *from, size_t bytes, int devices, struct stream *stream) {
    char text[64];
    struct copy job = {to, from, bytes, devices};
    if (!is_live(&job)) return INVALID_VALUE;
    snprintf(text, sizeof text, "%s %zu", what, bytes);
    return standin_enqueue(stream, run_copy, &job, sizeof job, text);
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, struct stream *stream) {
    return copy("upload", (void *)to, from, bytes, 1, stream);
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, struct stream *stream) {
    return copy("download", to, (void *)from, bytes, 2, stream);
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, struct stream *stream) {
    return copy("copy", (void *)to, (void *)from, bytes, 3, stream);
}

struct fill {
    void *at;
    size_t bytes;
    int value;
};

static void run_fill(const void *data) {
    const struct fill *fill = data;
    if (!standin_is_device_memory(fill->at, fill->bytes)) fault("a fill of memory that was freed");
    else memset(fill->at, fill->value, fill->bytes);
}

int cuMemsetD8Async(uint64_t at, unsigned char value, size_t bytes, struct stream *stream) {
    char text[64];
    struct fill job = {(void *)at, bytes, value};
    if (!standin_is_device_memory(job.at, bytes)) return INVALID_VALUE;
    snprintf(text, sizeof text, "fill %zu", bytes);
    return standin_enqueue(stream, run_fill, &job, sizeof job, text);
}
