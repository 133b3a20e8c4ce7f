/* A backend in C that opens a memory domain and runs its regions there: Mul by a constant. The device is the
 * heap, and its queue does at once what it is given. */

#include <stdlib.h>
#include <time.h>

#include "byoc_json.h"

#define ALIGNMENT 256
#define MARKS 16
#define MOST_AXES 8

static size_t count(void) BYOC_NOEXCEPT { return 1; }

static int32_t describe(size_t backend, byoc_sink out, byoc_sink error) BYOC_NOEXCEPT {
    (void)backend, (void)error;
    return byoc_put(out,
                    "{\"name\":\"cdevice\",\"version\":\"1.0.0\",\"code_version\":1,"
                    "\"summary\":\"Mul by a constant on a device, written in C\",\"domain\":\"heap\","
                    "\"candidates\":true,"
                    "\"run_options\":[{\"name\":\"title\",\"kind\":\"text\",\"default\":\"the heap\","
                    "\"help\":\"What the device is called\"}]}");
}

static int32_t patterns(size_t backend, byoc_slice options, byoc_sink out, byoc_sink error) BYOC_NOEXCEPT {
    (void)backend, (void)options, (void)error;
    return byoc_put(out, "[{\"name\":\"scale\",\"text\":\"(Mul ?x ?by:const)\"}]");
}

/* The id of the constant, or -1 where there is none. */
static int64_t factor_of(byoc_json_value region) {
    int64_t id;
    return byoc_json_int(byoc_json_get(byoc_json_first(byoc_json_get(region, "constants")), "id"), &id) ? id : -1;
}

/* The shape of a value. */
static byoc_json_value shape_of(byoc_json_value region, int64_t value) {
    return byoc_json_get(byoc_json_at(byoc_json_get(region, "values"), (size_t)value), "shape");
}

/* Whether the factor is broadcast to the input, which has the shape of the result then. */
static int fits(byoc_json_value region) {
    int64_t input = 0, constant = 0, size, other;
    byoc_json_value x, by;
    size_t rank, skipped, axis;
    if (!byoc_json_int(byoc_json_first(byoc_json_get(region, "inputs")), &input) ||
        !byoc_json_int(byoc_json_get(byoc_json_first(byoc_json_get(region, "constants")), "value"), &constant))
        return 0;
    x = shape_of(region, input), by = shape_of(region, constant);
    rank = byoc_json_length(by);
    if (rank > byoc_json_length(x) || byoc_json_length(x) > MOST_AXES) return 0;
    skipped = byoc_json_length(x) - rank;
    for (axis = 0; axis < rank; axis++) {
        if (!byoc_json_int(byoc_json_at(by, axis), &size)) return 0;
        if (size != 1 && (!byoc_json_int(byoc_json_at(x, axis + skipped), &other) || size != other)) return 0;
    }
    return 1;
}

static int32_t check(size_t backend, byoc_slice text, byoc_slice options, byoc_sink out, byoc_sink error) BYOC_NOEXCEPT {
    byoc_json_value region = byoc_json_of(text), value = byoc_json_first(byoc_json_get(region, "values"));
    (void)backend, (void)options, (void)error;
    for (; byoc_json_ok(value); value = byoc_json_next(value))
        if (!byoc_json_is(byoc_json_get(value, "dtype"), "f32")) return byoc_refuse(out, "type", "only f32 is taken");
    return fits(region) ? BYOC_OK : byoc_refuse(out, "shape", "the factor must be broadcast to the input");
}

static int32_t codegen(size_t backend, byoc_slice region, byoc_constants constants, byoc_slice options, byoc_sink code,
                       byoc_sink error) BYOC_NOEXCEPT {
    int64_t factor = factor_of(byoc_json_of(region));
    byoc_slice bytes;
    (void)backend, (void)constants, (void)options, (void)error;
    bytes.data = (const uint8_t *)&factor;
    bytes.len = sizeof factor;
    return code.write(code.context, bytes);
}

static int32_t constant_updater(size_t backend, byoc_slice region, byoc_constants constants, byoc_slice code,
                                byoc_slice options, byoc_output claims, byoc_sink error) BYOC_NOEXCEPT {
    (void)backend, (void)constants, (void)code, (void)options;
    if (byoc_claim(claims, factor_of(byoc_json_of(region)), "\"host\"") != BYOC_OK)
        return byoc_fail(error, "the claim was refused");
    return BYOC_OK;
}

static int32_t load(size_t backend, byoc_slice code, byoc_constants constants, byoc_slice environment, void **executable,
                    byoc_sink error) BYOC_NOEXCEPT {
    (void)backend, (void)code, (void)constants, (void)environment, (void)executable;
    return byoc_fail(error, "its regions run on the device only");
}

static int32_t run(void *executable, byoc_tensors inputs, byoc_tensors outputs, byoc_sink error) BYOC_NOEXCEPT {
    (void)executable, (void)inputs, (void)outputs;
    return byoc_fail(error, "its regions run on the device only");
}

static void free_executable(void *executable) BYOC_NOEXCEPT { (void)executable; }

/* Memory that is lent: the bytes begin at an aligned address behind this. */
typedef struct block {
    struct block *next;
    void *begin;
} block;

/* An open domain. */
typedef struct {
    block *blocks;
    clock_t marks[MARKS];
} heap;

static void *take(heap *domain, size_t bytes) {
    block *taken = (block *)malloc(sizeof *taken + bytes + ALIGNMENT);
    if (!taken) return NULL;
    taken->begin = (char *)(taken + 1) + (ALIGNMENT - (uintptr_t)(taken + 1) % ALIGNMENT);
    taken->next = domain->blocks;
    domain->blocks = taken;
    return taken->begin;
}

static void give_back(heap *domain, const void *begin) {
    block **link = &domain->blocks, *gone;
    while (*link && (*link)->begin != begin) link = &(*link)->next;
    gone = *link;
    if (gone) *link = gone->next;
    free(gone);
}

static int32_t open_domain(size_t backend, uint32_t ordinal, byoc_slice options, void **domain,
                           byoc_domain_handles *handles, byoc_sink out, byoc_sink error) BYOC_NOEXCEPT {
    byoc_json_value title = byoc_json_get(byoc_json_of(options), "title");
    byoc_slice text;
    heap *opened;
    (void)backend;
    if (ordinal > 0) return byoc_fail(error, "there is one heap");
    if (!byoc_json_ok(title)) return byoc_fail(error, "the device has no title");
    text.data = (const uint8_t *)title.at;
    text.len = (size_t)(byoc_json_value_end(title.at, title.end) - title.at);
    opened = (heap *)calloc(1, sizeof *opened);
    if (!opened) return byoc_fail(error, "out of memory");
    handles->device.device_type = 12;
    handles->device.device_id = (int32_t)ordinal;
    handles->context = opened;
    handles->queue = NULL;
    *domain = opened;
    (void)byoc_put(out, "{\"title\":");
    (void)out.write(out.context, text);
    return byoc_put(out, ",\"memory\":1048576}");
}

static void close_domain(void *domain) BYOC_NOEXCEPT {
    heap *open = (heap *)domain;
    while (open->blocks) give_back(open, open->blocks->begin);
    free(open);
}

static int32_t allocate(void *domain, uint64_t bytes, uint64_t *address, byoc_sink error) BYOC_NOEXCEPT {
    void *taken = take((heap *)domain, (size_t)bytes);
    if (!taken) return byoc_fail(error, "out of memory");
    *address = (uint64_t)(uintptr_t)taken;
    return BYOC_OK;
}

static void release(void *domain, uint64_t address) BYOC_NOEXCEPT { give_back((heap *)domain, (void *)(uintptr_t)address); }

static int32_t allocate_host(void *domain, size_t bytes, void **address, byoc_sink error) BYOC_NOEXCEPT {
    *address = take((heap *)domain, bytes);
    return *address ? BYOC_OK : byoc_fail(error, "out of memory");
}

static void release_host(void *domain, void *address) BYOC_NOEXCEPT { give_back((heap *)domain, address); }

static int32_t upload(void *domain, uint64_t to, const void *from, size_t bytes, byoc_sink error) BYOC_NOEXCEPT {
    (void)domain, (void)error;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return BYOC_OK;
}

static int32_t download(void *domain, void *to, uint64_t from, size_t bytes, byoc_sink error) BYOC_NOEXCEPT {
    (void)domain, (void)error;
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return BYOC_OK;
}

static int32_t copy(void *domain, uint64_t to, uint64_t from, size_t bytes, byoc_sink error) BYOC_NOEXCEPT {
    return upload(domain, to, (const void *)(uintptr_t)from, bytes, error);
}

static int32_t synchronize(void *domain, byoc_sink error) BYOC_NOEXCEPT {
    (void)domain, (void)error;
    return BYOC_OK;
}

static int32_t mark(void *domain, uint32_t number, byoc_sink error) BYOC_NOEXCEPT {
    if (number >= MARKS) return byoc_fail(error, "there are 16 marks");
    ((heap *)domain)->marks[number] = clock();
    return BYOC_OK;
}

static int32_t elapsed(void *domain, uint32_t from, uint32_t to, double *seconds, byoc_sink error) BYOC_NOEXCEPT {
    const heap *open = (const heap *)domain;
    if (from >= MARKS || to >= MARKS) return byoc_fail(error, "there are 16 marks");
    *seconds = (double)(open->marks[to] - open->marks[from]) / CLOCKS_PER_SEC;
    return BYOC_OK;
}

static int32_t begin_recording(void *domain, byoc_sink error) BYOC_NOEXCEPT {
    (void)domain;
    return byoc_fail(error, "the heap records nothing");
}

static int32_t end_recording(void *domain, uint64_t *recording, byoc_sink error) BYOC_NOEXCEPT {
    (void)recording;
    return begin_recording(domain, error);
}

static int32_t replay(void *domain, uint64_t recording, byoc_sink error) BYOC_NOEXCEPT {
    (void)recording;
    return begin_recording(domain, error);
}

static void forget(void *domain, uint64_t recording) BYOC_NOEXCEPT { (void)domain, (void)recording; }

/* A region that is loaded on the device. */
typedef struct {
    const float *by;
    byoc_tensor factor; /* its shape and strides: they stay as they are until the region is freed */
    const float *x;
    float *y;
    int64_t shape[MOST_AXES]; /* of the result */
    int32_t ndim;
} loaded;

/* Bytes of code: it may have one that says nothing. */
enum { SHORT = sizeof(int64_t), LONG };

static int32_t load_on(size_t backend, byoc_slice code, byoc_device_constants constants, byoc_slice environment,
                       const byoc_domain_handles *domain, void **executable, byoc_sink error) BYOC_NOEXCEPT {
    int64_t factor;
    size_t i = 0;
    loaded *region;
    (void)backend, (void)environment;
    if (domain->device.device_type != 12 || !domain->context) return byoc_fail(error, "the domain is none of the heap");
    if (code.len != SHORT && code.len != LONG) return byoc_fail(error, "damaged code");
    memcpy(&factor, code.data, sizeof factor);
    while (i < constants.len && constants.data[i].constant.id != (uint64_t)factor) i++;
    if (i == constants.len || constants.data[i].constant.layout.len != 0)
        return byoc_fail(error, "the factor is missing, or not laid out as it was claimed");
    region = (loaded *)calloc(1, sizeof *region);
    if (!region) return byoc_fail(error, "out of memory");
    region->by = (const float *)(uintptr_t)constants.data[i].address;
    region->factor = constants.data[i].constant.tensor;
    *executable = region;
    return BYOC_OK;
}

static int32_t plan(void *executable, byoc_tensors inputs, byoc_tensors outputs, byoc_sink out, byoc_sink error) BYOC_NOEXCEPT {
    loaded *region = (loaded *)executable;
    int32_t axis;
    if (inputs.len != 1 || outputs.len != 1) return byoc_fail(error, "one input and one output are expected");
    if (outputs.data->ndim > MOST_AXES || outputs.data->ndim < region->factor.ndim)
        return byoc_fail(error, "the result has another number of dimensions");
    region->ndim = outputs.data->ndim;
    for (axis = 0; axis < region->ndim; axis++) region->shape[axis] = outputs.data->shape[axis];
    return byoc_put(out, "{\"scratch\":0,\"records\":false}");
}

static int32_t prepare(void *executable, byoc_tensors inputs, byoc_tensors outputs, uint64_t scratch, byoc_sink error) BYOC_NOEXCEPT {
    loaded *region = (loaded *)executable;
    (void)scratch;
    if (inputs.len != 1 || outputs.len != 1) return byoc_fail(error, "one input and one output are expected");
    region->x = (const float *)inputs.data->data;
    region->y = (float *)outputs.data->data;
    return BYOC_OK;
}

/* The element of the factor that belongs to element `place` of the result. */
static float factor_at(const loaded *region, int64_t place) {
    const byoc_tensor *by = &region->factor;
    int64_t at = 0;
    int32_t axis, skipped = region->ndim - by->ndim;
    for (axis = region->ndim - 1; axis >= 0; axis--) {
        int64_t index = place % region->shape[axis];
        place /= region->shape[axis];
        if (axis >= skipped && by->shape[axis - skipped] != 1) at += index * by->strides[axis - skipped];
    }
    return region->by[at];
}

static int32_t run_on(void *executable, byoc_sink error) BYOC_NOEXCEPT {
    const loaded *region = (const loaded *)executable;
    int64_t elements = 1, i;
    int32_t axis;
    (void)error;
    for (axis = 0; axis < region->ndim; axis++) elements *= region->shape[axis];
    for (i = 0; i < elements; i++) region->y[i] = region->x[i] * factor_at(region, i);
    return BYOC_OK;
}

static void free_loaded(void *executable) BYOC_NOEXCEPT { free(executable); }

static int32_t tools(size_t backend, byoc_slice options, byoc_sink out, byoc_sink error) BYOC_NOEXCEPT {
    (void)backend, (void)options, (void)error;
    return byoc_put(out, "[{\"name\":\"malloc\",\"found\":\"in the C library\",\"needed_for\":\"running\"}]");
}

/* Both codes of a region, first the one that it has. */
static int32_t candidates(size_t backend, byoc_slice code, byoc_slice options, byoc_output out,
                          byoc_sink error) BYOC_NOEXCEPT {
    static const char *const names[] = {"short", "long"};
    uint8_t other[LONG];
    char name[80];
    byoc_slice codes[2];
    size_t own = code.len == LONG, i;
    int length;
    (void)backend, (void)options;
    if (code.len != SHORT && code.len != LONG) return byoc_fail(error, "damaged code");
    memset(other, 0, sizeof other);
    memcpy(other, code.data, SHORT);
    codes[0] = code;
    codes[1].data = other;
    codes[1].len = own ? SHORT : LONG;
    for (i = 0; i < 2; i++) {
        length = snprintf(name, sizeof name, "{\"name\":\"%s\"}", names[own ^ i]);
        if (byoc_item(out, name, sizeof name, length) != BYOC_OK || out.write(out.context, codes[i]) != BYOC_OK)
            return byoc_fail(error, "no more are taken");
    }
    return BYOC_OK;
}

static int32_t call(size_t backend, byoc_slice method, byoc_slice request, byoc_constants constants, byoc_slices blobs,
                    byoc_output out, byoc_sink error) BYOC_NOEXCEPT {
    byoc_slice region = byoc_json_text(byoc_json_get(byoc_json_of(request), "region"));
    byoc_slice options = byoc_json_text(byoc_json_get(byoc_json_of(request), "options"));
    if (byoc_is(method, "describe")) return describe(backend, byoc_bytes(out), error);
    if (byoc_is(method, "patterns")) return patterns(backend, options, byoc_bytes(out), error);
    if (byoc_is(method, "check")) return check(backend, region, options, byoc_bytes(out), error);
    if (byoc_is(method, "codegen")) return codegen(backend, region, constants, options, byoc_bytes(out), error);
    if (byoc_is(method, "constant_updater"))
        return constant_updater(backend, region, constants, byoc_blob(blobs, 0), options, out, error);
    if (byoc_is(method, "tools")) return tools(backend, options, byoc_bytes(out), error);
    if (byoc_is(method, "candidates")) return candidates(backend, byoc_blob(blobs, 0), options, out, error);
    return BYOC_UNKNOWN;
}

static const void *extension(size_t backend, byoc_slice id, uint32_t version) BYOC_NOEXCEPT {
    static const byoc_domain_table domain_table = {
        sizeof(byoc_domain_table), open_domain, close_domain, allocate, release, allocate_host, release_host,
        upload, download, copy, synchronize, mark, elapsed, begin_recording, end_recording, replay, forget,
    };
    static const byoc_device_table device_table = {
        sizeof(byoc_device_table), load_on, plan, prepare, run_on, free_loaded,
    };
    (void)backend;
    if (byoc_is(id, BYOC_DOMAIN) && version == BYOC_DOMAIN_VERSION) return &domain_table;
    if (byoc_is(id, BYOC_DEVICE) && version == BYOC_DEVICE_VERSION) return &device_table;
    return NULL;
}

const byoc_info byoc_plugin_info = BYOC_PLUGIN_INFO("cdevice", "1.0.0");

BYOC_PLUGIN_MANIFEST("cdevice", "1.0.0", "[\"cdevice\"]");

const byoc_table byoc_plugin_table = {
    sizeof(byoc_table), count, call, load, run, free_executable, extension,
};
