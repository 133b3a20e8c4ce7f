/* A backend in C that brings two operators. com.acme.Swirl multiplies each row by a constant and puts a table behind it: the
 * types of its outputs follow from that table, so byoc asks for them. com.acme.Pick gives the elements above 0: how many, only
 * the run tells. */

#include "byoc_json.h"

#define MOST_OF_TABLE 64

static size_t count(void) BYOC_NOEXCEPT { return 1; }

static int32_t describe(byoc_sink out) {
    return byoc_put(out,
                    "{\"name\":\"cacme\",\"version\":\"1.0.0\",\"code_version\":1,"
                    "\"summary\":\"An operator of its own, in C\",\"constant_access\":\"load\","
                    "\"operators\":[{\"domain\":\"com.acme\",\"name\":\"Swirl\",\"inputs\":2,"
                    "\"attributes\":[{\"name\":\"table\",\"kind\":\"tensor\",\"required\":true}]},"
                    "{\"domain\":\"com.acme\",\"name\":\"Pick\",\"inputs\":1,"
                    "\"outputs\":[{\"dtype\":{\"input\":0},\"shape\":{\"run_time\":1}}]}],\"run_time_sizes\":true}");
}

static int32_t patterns(byoc_sink out) {
    return byoc_put(out, "[{\"name\":\"swirl\",\"text\":\"(com.acme::Swirl ?x ?scales:const)\"},"
                         "{\"name\":\"pick\",\"text\":\"(com.acme::Pick ?x)\"}]");
}

/* The code of a region. */
typedef struct {
    int64_t scales; /* the constant's id */
    int64_t length; /* of the table */
    float table[MOST_OF_TABLE];
} swirl;

/* The code of a Pick. */
static const byoc_slice PICK = {(const uint8_t *)"pick", 4};

static byoc_json_value node_of(byoc_json_value region) { return byoc_json_first(byoc_json_get(region, "nodes")); }

static int is_pick(byoc_json_value region) { return byoc_json_is(byoc_json_get(node_of(region), "op"), "Pick"); }

/* The value at an input of the node. */
static byoc_json_value input_of(byoc_json_value region, size_t index) {
    int64_t value = -1;
    (void)byoc_json_int(byoc_json_at(byoc_json_get(node_of(region), "inputs"), index), &value);
    return byoc_json_at(byoc_json_get(region, "values"), (size_t)value);
}

/* Reads the table; 0 where it is not a list of f32. */
static int read_table(byoc_json_value region, swirl *found) {
    byoc_json_value table = byoc_json_get(byoc_json_get(byoc_json_get(node_of(region), "attributes"), "table"), "tensor");
    size_t bytes = byoc_json_bytes(byoc_json_get(table, "hex"), found->table, sizeof found->table);
    found->length = (int64_t)(bytes / sizeof(float));
    return byoc_json_is(byoc_json_get(table, "dtype"), "f32") && bytes <= sizeof found->table;
}

static int32_t infer(byoc_slice text, byoc_sink out, byoc_sink error) {
    char width[40];
    swirl found;
    byoc_json_value region = byoc_json_of(text), x = input_of(region, 0);
    byoc_json_value size = byoc_json_first(byoc_json_get(x, "shape")), next;
    byoc_json_value scales = byoc_json_get(input_of(region, 1), "shape");
    int64_t columns, known;
    if (!read_table(region, &found)) return byoc_fail(error, "the table is a short list of f32");
    if (!byoc_json_ok(size)) return byoc_fail(error, "input 0 has no rows");
    (void)byoc_put(out, "[{\"dtype\":");
    (void)out.write(out.context, byoc_json_text(byoc_json_get(x, "dtype")));
    (void)byoc_put(out, ",\"shape\":[");
    for (next = byoc_json_next(size); byoc_json_ok(next); size = next, next = byoc_json_next(size)) {
        (void)out.write(out.context, byoc_json_text(size));
        (void)byoc_put(out, ",");
    }
    if (!byoc_json_int(size, &columns)) return byoc_fail(error, "the length of the rows is not known");
    if (byoc_json_length(scales) != 1 || !byoc_json_int(byoc_json_first(scales), &known) || known != columns)
        return byoc_fail(error, "input 1 has another size than a row of input 0");
    (void)snprintf(width, sizeof width, "%lld]}]", (long long)(columns + found.length));
    return byoc_put(out, width);
}

static int32_t check(byoc_slice text, byoc_sink out) {
    byoc_json_value region = byoc_json_of(text);
    int float32 = byoc_json_is(byoc_json_get(input_of(region, 0), "dtype"), "f32") &&
                  (is_pick(region) || byoc_json_is(byoc_json_get(input_of(region, 1), "dtype"), "f32"));
    return float32 ? BYOC_OK : byoc_refuse(out, "type", "only f32 is taken");
}

static int32_t codegen(byoc_slice text, byoc_sink code, byoc_sink error) {
    swirl found;
    byoc_slice bytes;
    byoc_json_value region = byoc_json_of(text), constant = byoc_json_first(byoc_json_get(region, "constants"));
    memset(&found, 0, sizeof found);
    if (is_pick(region)) return code.write(code.context, PICK);
    if (!read_table(region, &found) || !byoc_json_int(byoc_json_get(constant, "id"), &found.scales))
        return byoc_fail(error, "the region is not a Swirl with constant scales");
    bytes.data = (const uint8_t *)&found;
    bytes.len = sizeof found;
    return code.write(code.context, bytes);
}

static int32_t constant_updater(byoc_slice text, byoc_output claims, byoc_sink error) {
    byoc_json_value constant = byoc_json_first(byoc_json_get(byoc_json_of(text), "constants"));
    int64_t id;
    if (is_pick(byoc_json_of(text))) return BYOC_OK;
    if (!byoc_json_int(byoc_json_get(constant, "id"), &id)) return byoc_fail(error, "the region has no constant");
    return byoc_claim(claims, id, "\"host\"");
}

static int32_t call(size_t backend, byoc_slice method, byoc_slice request, byoc_constants constants, byoc_slices blobs,
                    byoc_output out, byoc_sink error) BYOC_NOEXCEPT {
    byoc_slice region = byoc_json_text(byoc_json_get(byoc_json_of(request), "region"));
    (void)backend, (void)constants, (void)blobs;
    if (byoc_is(method, "describe")) return describe(byoc_bytes(out));
    if (byoc_is(method, "patterns")) return patterns(byoc_bytes(out));
    if (byoc_is(method, "infer")) return infer(region, byoc_bytes(out), error);
    if (byoc_is(method, "check")) return check(region, byoc_bytes(out));
    if (byoc_is(method, "codegen")) return codegen(region, byoc_bytes(out), error);
    if (byoc_is(method, "constant_updater")) return constant_updater(region, out, error);
    return BYOC_UNKNOWN;
}

/* A region that is ready to run: code and scales stay where they are until it is freed. */
typedef struct {
    swirl code;
    byoc_tensor scales;
} loaded;

/* The handle of every Pick: there is nothing to keep. */
static loaded picking;

static int32_t load(size_t backend, byoc_slice code, byoc_constants constants, byoc_slice environment, void **executable,
                    byoc_sink error) BYOC_NOEXCEPT {
    loaded *region;
    (void)backend, (void)environment;
    if (code.len == PICK.len && !memcmp(code.data, PICK.data, PICK.len)) {
        *executable = &picking;
        return BYOC_OK;
    }
    if (code.len != sizeof(swirl) || constants.len != 1) return byoc_fail(error, "damaged code");
    region = (loaded *)malloc(sizeof *region);
    if (!region) return byoc_fail(error, "out of memory");
    memcpy(&region->code, code.data, sizeof region->code);
    region->scales = constants.data[0].tensor;
    if (region->code.scales != (int64_t)constants.data[0].id || region->code.length < 0 ||
        region->code.length > MOST_OF_TABLE || region->scales.ndim != 1 || constants.data[0].layout.len != 0) {
        free(region);
        return byoc_fail(error, "damaged code");
    }
    *executable = region;
    return BYOC_OK;
}

static int32_t run(void *executable, byoc_tensors inputs, byoc_tensors outputs, byoc_sink error) BYOC_NOEXCEPT {
    const loaded *region = (const loaded *)executable;
    const char *scales = (const char *)region->scales.data + region->scales.byte_offset;
    const float *x;
    float *y, scale;
    int64_t rows = 1, row, column;
    int32_t axis;
    if (inputs.len != 1 || outputs.len != 1 || inputs.data[0].ndim < 1 ||
        inputs.data[0].shape[inputs.data[0].ndim - 1] != region->scales.shape[0])
        return byoc_fail(error, "one tensor is expected, with a scale for each element of a row");
    x = (const float *)inputs.data[0].data;
    y = (float *)outputs.data[0].data;
    for (axis = 0; axis + 1 < inputs.data[0].ndim; axis++) rows *= inputs.data[0].shape[axis];
    for (row = 0; row < rows; row++) {
        for (column = 0; column < region->scales.shape[0]; column++) {
            memcpy(&scale, scales + column * region->scales.strides[0] * (int64_t)sizeof scale, sizeof scale);
            *y++ = *x++ * scale;
        }
        memcpy(y, region->code.table, (size_t)region->code.length * sizeof *y);
        y += region->code.length;
    }
    return BYOC_OK;
}

static void free_executable(void *executable) BYOC_NOEXCEPT {
    if (executable != &picking) free(executable);
}

/* Counts, asks for the memory, and fills it. */
static int32_t run_sized(void *executable, byoc_tensors inputs, byoc_output_allocator outputs,
                         byoc_sink error) BYOC_NOEXCEPT {
    const float *x;
    float *y;
    int64_t count = 1, picked = 0, index;
    int32_t axis;
    byoc_tensor output;
    if (executable != &picking || inputs.len != 1) return byoc_fail(error, "one tensor is expected");
    x = (const float *)inputs.data[0].data;
    for (axis = 0; axis < inputs.data[0].ndim; axis++) count *= inputs.data[0].shape[axis];
    for (index = 0; index < count; index++) picked += x[index] > 0;
    if (outputs.allocate(outputs.context, 0, &picked, 1, &output) != BYOC_OK) return byoc_fail(error, "no memory");
    y = (float *)output.data;
    for (index = 0; index < count; index++) {
        if (x[index] > 0) *y++ = x[index];
    }
    return BYOC_OK;
}

static const byoc_sized_table sized_table = {sizeof(byoc_sized_table), run_sized};

static const void *extension(size_t backend, byoc_slice id, uint32_t version) BYOC_NOEXCEPT {
    (void)backend;
    return byoc_is(id, BYOC_SIZED) && version == BYOC_SIZED_VERSION ? &sized_table : NULL;
}

const byoc_info byoc_plugin_info = BYOC_PLUGIN_INFO("cacme", "1.0.0");

BYOC_PLUGIN_MANIFEST("cacme", "1.0.0", "[\"cacme\"]");

const byoc_table byoc_plugin_table = {
    sizeof(byoc_table), count, call, load, run, free_executable, extension,
};
