/* A backend in C: takes MatMul with a constant matrix and a constant bias, and packs the matrix column by column. */

#include <stdlib.h>

#include "byoc_json.h"

#define LAYOUT "columns/1"

static size_t count(void) BYOC_NOEXCEPT { return 1; }

static int32_t describe(size_t backend, byoc_sink out, byoc_sink error) BYOC_NOEXCEPT {
    (void)backend, (void)error;
    return byoc_put(out,
                    "{\"name\":\"cmatmul\",\"version\":\"1.0.0\",\"code_version\":1,"
                    "\"summary\":\"MatMul with a bias, written in C\",\"constant_access\":\"both\","
                    "\"files\":[{\"extension\":\"dense\",\"summary\":\"The sizes of a matrix product\"}]}");
}

static int32_t patterns(size_t backend, byoc_slice options, byoc_sink out, byoc_sink error) BYOC_NOEXCEPT {
    (void)backend, (void)options, (void)error;
    return byoc_put(out, "[{\"name\":\"dense\",\"text\":\"(Add (MatMul ?x ?w:const) ?b:const)\"}]");
}

/* What a region is about: the two constants and the sizes. */
typedef struct {
    int64_t matrix, bias;   /* ids */
    int64_t inner, columns; /* of the matrix */
    int64_t rows;           /* of the other operand; 1 where they are known at run time only */
} dense;

/* The id of the constant that is value `value` of the region, or -1. */
static int64_t constant_of(byoc_json_value region, int64_t value) {
    byoc_json_value constant = byoc_json_first(byoc_json_get(region, "constants"));
    for (; byoc_json_ok(constant); constant = byoc_json_next(constant)) {
        int64_t found, id;
        if (byoc_json_int(byoc_json_get(constant, "value"), &found) && found == value &&
            byoc_json_int(byoc_json_get(constant, "id"), &id))
            return id;
    }
    return -1;
}

/* The node of that operator. */
static byoc_json_value node_of(byoc_json_value region, const char *op) {
    byoc_json_value node = byoc_json_first(byoc_json_get(region, "nodes"));
    while (byoc_json_ok(node) && !byoc_json_is(byoc_json_get(node, "op"), op)) node = byoc_json_next(node);
    return node;
}

/* Input `index` of a node, as a value of the region. */
static int64_t input_of(byoc_json_value node, size_t index) {
    int64_t value = -1;
    (void)byoc_json_int(byoc_json_at(byoc_json_get(node, "inputs"), index), &value);
    return value;
}

/* The number of rows of a tensor whose last dimension is a column, or 1 where it is not known. */
static int64_t rows_of(byoc_json_value shape) {
    byoc_json_value size = byoc_json_first(shape), next;
    int64_t rows = 1, found;
    for (; byoc_json_ok(size); size = next) {
        next = byoc_json_next(size);
        if (!byoc_json_ok(next)) break;
        if (!byoc_json_int(size, &found)) return 1;
        rows *= found;
    }
    return rows;
}

/* Reads a region; the reason why it is not taken, or NULL. */
static const char *read_region(byoc_slice text, dense *found) {
    byoc_json_value region = byoc_json_of(text), values = byoc_json_get(region, "values"), value;
    byoc_json_value matmul = node_of(region, "MatMul"), add = node_of(region, "Add");
    int64_t matrix = input_of(matmul, 1), product = -1, bias, size;
    (void)byoc_json_int(byoc_json_first(byoc_json_get(matmul, "outputs")), &product);
    bias = input_of(add, 0) == product ? input_of(add, 1) : input_of(add, 0);
    found->rows = rows_of(byoc_json_get(byoc_json_at(values, (size_t)input_of(matmul, 0)), "shape"));
    found->matrix = constant_of(region, matrix);
    found->bias = constant_of(region, bias);
    if (found->matrix < 0 || found->bias < 0) return "the matrix and the bias must be constants";
    for (value = byoc_json_first(values); byoc_json_ok(value); value = byoc_json_next(value))
        if (!byoc_json_is(byoc_json_get(value, "dtype"), "f32")) return "only f32 is taken";
    value = byoc_json_get(byoc_json_at(values, (size_t)matrix), "shape");
    if (byoc_json_length(value) != 2 || !byoc_json_int(byoc_json_at(value, 0), &found->inner) ||
        !byoc_json_int(byoc_json_at(value, 1), &found->columns))
        return "the matrix must have two dimensions";
    value = byoc_json_get(byoc_json_at(values, (size_t)bias), "shape");
    if (byoc_json_length(value) != 1 || !byoc_json_int(byoc_json_first(value), &size) || size != found->columns)
        return "the bias must have one element for each column";
    return NULL;
}

static int32_t check(size_t backend, byoc_slice region, byoc_slice options, byoc_sink out, byoc_sink error) BYOC_NOEXCEPT {
    dense found;
    const char *reason = read_region(region, &found);
    (void)backend, (void)options, (void)error;
    return reason ? byoc_refuse(out, "shape", reason) : BYOC_OK;
}

static int32_t codegen(size_t backend, byoc_slice region, byoc_constants constants, byoc_slice options, byoc_sink code,
                       byoc_sink error) BYOC_NOEXCEPT {
    dense found;
    byoc_slice bytes;
    const char *reason = read_region(region, &found);
    (void)backend, (void)constants, (void)options;
    if (reason) return byoc_fail(error, reason);
    bytes.data = (const uint8_t *)&found;
    bytes.len = sizeof found;
    return code.write(code.context, bytes);
}

static byoc_event_sink told;

static void lend_events(byoc_event_sink events) BYOC_NOEXCEPT { told = events; }

static const byoc_events_table events_table = {sizeof(byoc_events_table), lend_events};

/* The constant of that id, or NULL. */
static const byoc_constant *find(byoc_constants constants, int64_t id) {
    size_t i;
    for (i = 0; i < constants.len; i++)
        if (constants.data[i].id == (uint64_t)id) return &constants.data[i];
    return NULL;
}

/* Element (row, column) of a constant of one or two dimensions: any strides, any alignment. */
static float element(const byoc_tensor *tensor, int64_t row, int64_t column) {
    int64_t at = tensor->ndim == 2 ? row * tensor->strides[0] + column * tensor->strides[1] : column * tensor->strides[0];
    float value;
    memcpy(&value, (const char *)tensor->data + tensor->byte_offset + at * (int64_t)sizeof value, sizeof value);
    return value;
}

static int32_t constant_updater(size_t backend, byoc_slice region, byoc_constants constants, byoc_slice code,
                                byoc_slice options, byoc_output claims, byoc_sink error) BYOC_NOEXCEPT {
    dense found;
    char claim[160];
    byoc_slice bytes;
    const byoc_constant *matrix;
    int64_t row, column;
    const char *reason = read_region(region, &found);
    (void)backend, (void)code, (void)options;
    if (reason) return byoc_fail(error, reason);
    matrix = find(constants, found.matrix);
    if (!matrix || !matrix->tensor.data) return byoc_fail(error, "the matrix was not given");
    if (found.bias != found.matrix && byoc_claim(claims, found.bias, "\"host\"") != BYOC_OK)
        return byoc_fail(error, "the claim was refused");
    (void)snprintf(claim, sizeof claim, "{\"packed\":{\"layout\":\"" LAYOUT "\",\"dtype\":\"f32\",\"shape\":[%lld,%lld]}}",
                   (long long)found.columns, (long long)found.inner);
    if (byoc_claim(claims, found.matrix, claim) != BYOC_OK)
        return byoc_fail(error, "the claim was refused");
    for (column = 0; column < found.columns; column++)
        for (row = 0; row < found.inner; row++) {
            float value = element(&matrix->tensor, row, column);
            bytes.data = (const uint8_t *)&value;
            bytes.len = sizeof value;
            if (claims.write(claims.context, bytes) != BYOC_OK) return byoc_fail(error, "the bytes were refused");
        }
    return BYOC_OK;
}

/* A region that is ready to run: the constants stay where they are until it is freed. */
typedef struct {
    dense sizes;
    byoc_tensor matrix, bias;
} loaded;

static int32_t load(size_t backend, byoc_slice code, byoc_constants constants, byoc_slice environment, void **executable,
                    byoc_sink error) BYOC_NOEXCEPT {
    loaded *region;
    const byoc_constant *matrix, *bias;
    (void)backend, (void)environment;
    if (code.len != sizeof(dense)) return byoc_fail(error, "damaged code");
    region = (loaded *)malloc(sizeof *region);
    if (!region) return byoc_fail(error, "out of memory");
    memcpy(&region->sizes, code.data, sizeof(dense));
    matrix = find(constants, region->sizes.matrix);
    bias = find(constants, region->sizes.bias);
    if (!matrix || !bias || matrix->layout.len != strlen(LAYOUT) || memcmp(matrix->layout.data, LAYOUT, strlen(LAYOUT)) != 0 ||
        bias->layout.len != 0) {
        free(region);
        return byoc_fail(error, "a constant is missing, or not laid out as it was claimed");
    }
    region->matrix = matrix->tensor;
    region->bias = bias->tensor;
    *executable = region;
    byoc_log(byoc_events(told), "the matrix is bound");
    return BYOC_OK;
}

static int32_t run(void *executable, byoc_tensors inputs, byoc_tensors outputs, byoc_sink error) BYOC_NOEXCEPT {
    const loaded *region = (const loaded *)executable;
    const dense *sizes = &region->sizes;
    const float *x, *w = (const float *)region->matrix.data;
    int64_t rows = 1, row, column, k;
    float *y;
    int32_t axis;
    if (inputs.len != 1 || outputs.len != 1) return byoc_fail(error, "one input and one output are expected");
    x = (const float *)inputs.data[0].data;
    y = (float *)outputs.data[0].data;
    for (axis = 0; axis + 1 < inputs.data[0].ndim; axis++) rows *= inputs.data[0].shape[axis];
    for (row = 0; row < rows; row++)
        for (column = 0; column < sizes->columns; column++) {
            float sum = element(&region->bias, 0, column);
            for (k = 0; k < sizes->inner; k++) sum += x[row * sizes->inner + k] * w[column * sizes->inner + k];
            y[row * sizes->columns + column] = sum;
        }
    return BYOC_OK;
}

static void free_executable(void *executable) BYOC_NOEXCEPT { free(executable); }

static int32_t open_file(size_t backend, byoc_slice file, byoc_sink out, byoc_sink error) BYOC_NOEXCEPT {
    dense sizes;
    char text[400];
    (void)backend;
    if (file.len != sizeof sizes) return byoc_fail(error, "it is cut short, or no file of this format");
    memcpy(&sizes, file.data, sizeof sizes);
    if (sizes.inner < 0 || sizes.columns < 0 || sizes.rows < 0) return byoc_fail(error, "its sizes are damaged");
    snprintf(text, sizeof text,
             "{\"format\":\"dense 1\",\"file_bytes\":%zu,"
             "\"inputs\":[{\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[%lld,%lld]}],"
             "\"outputs\":[{\"name\":\"y\",\"dtype\":\"f32\",\"shape\":[%lld,%lld]}]}",
             sizeof sizes, (long long)sizes.rows, (long long)sizes.inner, (long long)sizes.rows, (long long)sizes.columns);
    return byoc_put(out, text);
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
    if (byoc_is(method, "open")) return open_file(backend, byoc_blob(blobs, 0), byoc_bytes(out), error);
    return BYOC_UNKNOWN;
}

static const void *extension(size_t backend, byoc_slice id, uint32_t version) BYOC_NOEXCEPT {
    (void)backend;
    return byoc_is(id, BYOC_EVENTS) && version == BYOC_EVENTS_VERSION ? &events_table : NULL;
}

const byoc_info byoc_plugin_info = BYOC_PLUGIN_INFO("cmatmul", "1.0.0");

BYOC_PLUGIN_MANIFEST("cmatmul", "1.0.0", "[\"cmatmul\"]");

const byoc_table byoc_plugin_table = {
    sizeof(byoc_table), count, call, load, run, free_executable, extension,
};
