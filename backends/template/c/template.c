/* The template backend: takes Add of two f32 tensors of one shape and leaves constants to the host. */

#include <stdlib.h>

#include "byoc_json.h"

/* ---- who the backend is, what it takes, and why not ---- */

static size_t count(void) BYOC_NOEXCEPT { return 1; }

static int32_t describe(size_t backend, byoc_sink out, byoc_sink error) BYOC_NOEXCEPT {
    (void)backend, (void)error;
    return byoc_put(out,
                    "{\"name\":\"template\",\"version\":\"0.1.0\",\"code_version\":1,"
                    "\"summary\":\"Element-wise Add of f32 tensors\",\"constant_access\":\"load\"}");
}

static int32_t patterns(size_t backend, byoc_slice options, byoc_sink out, byoc_sink error) BYOC_NOEXCEPT {
    (void)backend, (void)options, (void)error;
    return byoc_put(out, "[{\"name\":\"add\",\"text\":\"(Add ?x ?y)\"}]");
}

/* Input `index` of the region's node, as an index into its values, or -1. */
static int64_t input_of(byoc_json_value region, size_t index) {
    byoc_json_value node = byoc_json_first(byoc_json_get(region, "nodes"));
    int64_t value = -1;
    (void)byoc_json_int(byoc_json_at(byoc_json_get(node, "inputs"), index), &value);
    return value;
}

static int32_t check(size_t backend, byoc_slice region, byoc_slice options, byoc_sink out,
                     byoc_sink error) BYOC_NOEXCEPT {
    byoc_json_value candidate = byoc_json_of(region), values = byoc_json_get(candidate, "values");
    int64_t x = input_of(candidate, 0), y = input_of(candidate, 1);
    byoc_json_value left, right;
    (void)backend, (void)options;
    if (x < 0 || y < 0) return byoc_fail(error, "the region has no node with two inputs");
    left = byoc_json_at(values, (size_t)x);
    right = byoc_json_at(values, (size_t)y);
    if (!byoc_json_is(byoc_json_get(left, "dtype"), "f32") || !byoc_json_is(byoc_json_get(right, "dtype"), "f32"))
        return byoc_refuse(out, "type", "only f32 is taken");
    if (!byoc_json_same(byoc_json_get(left, "shape"), byoc_json_get(right, "shape")))
        return byoc_refuse(out, "shape", "the two tensors differ in shape");
    return BYOC_OK;
}

/* ---- region to code ---- */

/* Where an operand comes from: the input of that position, or else the constant of that id. */
typedef struct {
    int64_t input; /* -1 for a constant */
    uint64_t constant;
} operand;

/* The code of a region. It holds no weight. */
typedef struct {
    operand operands[2];
} program;

/* Finds out where value `value` of the region comes from; 0 if from nowhere. */
static int find_operand(byoc_json_value region, int64_t value, operand *found) {
    byoc_json_value entry = byoc_json_first(byoc_json_get(region, "constants"));
    int64_t number, id;
    for (; byoc_json_ok(entry); entry = byoc_json_next(entry))
        if (byoc_json_int(byoc_json_get(entry, "value"), &number) && number == value) {
            if (!byoc_json_int(byoc_json_get(entry, "id"), &id)) return 0;
            found->input = -1;
            found->constant = (uint64_t)id;
            return 1;
        }
    found->constant = 0;
    found->input = 0;
    entry = byoc_json_first(byoc_json_get(region, "inputs"));
    for (; byoc_json_ok(entry); entry = byoc_json_next(entry), found->input++)
        if (byoc_json_int(entry, &number) && number == value) return 1;
    return 0;
}

static int32_t codegen(size_t backend, byoc_slice region, byoc_constants constants, byoc_slice options, byoc_sink code,
                       byoc_sink error) BYOC_NOEXCEPT {
    byoc_json_value graph = byoc_json_of(region);
    program result;
    byoc_slice bytes;
    size_t i;
    (void)backend, (void)constants, (void)options;
    for (i = 0; i < 2; i++)
        if (!find_operand(graph, input_of(graph, i), &result.operands[i]))
            return byoc_fail(error, "an operand is neither an input nor a constant");
    bytes.data = (const uint8_t *)&result;
    bytes.len = sizeof result;
    return code.write(code.context, bytes) == BYOC_OK ? BYOC_OK : byoc_fail(error, "the code was not taken");
}

/* ---- one claim for each constant ---- */

static int32_t constant_updater(size_t backend, byoc_slice region, byoc_constants constants, byoc_slice code,
                                byoc_slice options, byoc_output claims, byoc_sink error) BYOC_NOEXCEPT {
    byoc_json_value constant = byoc_json_first(byoc_json_get(byoc_json_of(region), "constants"));
    int64_t id;
    (void)backend, (void)constants, (void)code, (void)options;
    for (; byoc_json_ok(constant); constant = byoc_json_next(constant))
        if (!byoc_json_int(byoc_json_get(constant, "id"), &id) || byoc_claim(claims, id, "\"host\"") != BYOC_OK)
            return byoc_fail(error, "the claim was not taken");
    return BYOC_OK;
}

/* ---- code and constants to an executable ---- */

/* A region that is ready to run. Constants stay where they are until it is freed. */
typedef struct {
    program code;
    byoc_tensor constants[2]; /* of the operands that are constants */
} executable;

static int is_f32(const byoc_tensor *tensor) { return tensor->dtype.code == 2 && tensor->dtype.bits == 32; }

/* The original bytes of the constant of that id, or NULL. */
static const byoc_tensor *find_constant(byoc_constants constants, uint64_t id) {
    size_t i;
    for (i = 0; i < constants.len; i++)
        if (constants.data[i].id == id && constants.data[i].layout.len == 0) return &constants.data[i].tensor;
    return NULL;
}

static int32_t load(size_t backend, byoc_slice code, byoc_constants constants, byoc_slice environment, void **handle,
                    byoc_sink error) BYOC_NOEXCEPT {
    executable loaded, *result;
    size_t i;
    (void)backend, (void)environment;
    memset(&loaded, 0, sizeof loaded);
    if (code.len != sizeof loaded.code) return byoc_fail(error, "damaged code");
    memcpy(&loaded.code, code.data, code.len);
    for (i = 0; i < 2; i++) {
        const operand *operand = &loaded.code.operands[i];
        const byoc_tensor *constant = operand->input < 0 ? find_constant(constants, operand->constant) : NULL;
        if (operand->input < 0 && !constant) return byoc_fail(error, "a constant is not bound");
        if (constant) loaded.constants[i] = *constant;
    }
    result = (executable *)malloc(sizeof *result);
    if (!result) return byoc_fail(error, "out of memory");
    *result = loaded;
    *handle = result;
    return BYOC_OK;
}

static int64_t elements(const byoc_tensor *tensor) {
    int64_t product = 1;
    int32_t axis;
    for (axis = 0; axis < tensor->ndim; axis++) product *= tensor->shape[axis];
    return product;
}

/* Element `index` in row-major order. A constant may have any strides and any alignment. */
static float element(const byoc_tensor *tensor, int64_t index) {
    int64_t at = 0;
    int32_t axis;
    float value;
    for (axis = tensor->ndim; axis-- > 0; index /= tensor->shape[axis])
        at += index % tensor->shape[axis] * tensor->strides[axis];
    memcpy(&value, (const char *)tensor->data + tensor->byte_offset + at * (int64_t)sizeof value, sizeof value);
    return value;
}

static int32_t run(void *handle, byoc_tensors inputs, byoc_tensors outputs, byoc_sink error) BYOC_NOEXCEPT {
    const executable *loaded = (const executable *)handle;
    const byoc_tensor *operands[2];
    int64_t total, index;
    size_t i;
    float *sum;
    if (outputs.len != 1 || !is_f32(&outputs.data[0])) return byoc_fail(error, "expected one output of f32");
    total = elements(&outputs.data[0]);
    for (i = 0; i < 2; i++) {
        int64_t input = loaded->code.operands[i].input;
        if (input >= 0 && (uint64_t)input >= inputs.len) return byoc_fail(error, "an input is missing");
        operands[i] = input < 0 ? &loaded->constants[i] : &inputs.data[input];
        if (!is_f32(operands[i]) || elements(operands[i]) != total)
            return byoc_fail(error, "an operand has another type or size than the output");
    }
    sum = (float *)((char *)outputs.data[0].data + outputs.data[0].byte_offset);
    for (index = 0; index < total; index++) sum[index] = element(operands[0], index) + element(operands[1], index);
    return BYOC_OK;
}

static void free_executable(void *handle) BYOC_NOEXCEPT { free(handle); }

/* ---- what the library exports ---- */

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
    return BYOC_UNKNOWN;
}

static const void *extension(size_t backend, byoc_slice id, uint32_t version) BYOC_NOEXCEPT {
    (void)backend, (void)id, (void)version;
    return NULL;
}

const byoc_info byoc_plugin_info = BYOC_PLUGIN_INFO("byoc-template", "0.1.0");

/* The same and the names of all backends, for whoever does not open the library. */
BYOC_PLUGIN_MANIFEST("byoc-template", "0.1.0", "[\"template\"]");

const byoc_table byoc_plugin_table = {
    sizeof(byoc_table), count, call, load, run, free_executable, extension,
};
