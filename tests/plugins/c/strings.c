/* A backend in C that takes texts: StringConcat of two tensors of one shape. */

#include "byoc_json.h"

static size_t count(void) BYOC_NOEXCEPT { return 1; }

static int32_t describe(byoc_sink out) {
    return byoc_put(out,
                    "{\"name\":\"cstrings\",\"version\":\"1.0.0\",\"code_version\":1,"
                    "\"summary\":\"Texts, in C\",\"constant_access\":\"load\",\"types\":[\"string\"]}");
}

/* The texts of the only shape of both inputs, where it is the same and without symbols. */
static int same_shape(byoc_json_value region) {
    byoc_json_value values = byoc_json_get(region, "values");
    byoc_json_value a = byoc_json_get(byoc_json_at(values, 0), "shape"), b = byoc_json_get(byoc_json_at(values, 1), "shape");
    byoc_slice x = byoc_json_text(a), y = byoc_json_text(b);
    return x.len == y.len && !memcmp(x.data, y.data, x.len);
}

static int32_t call(size_t backend, byoc_slice method, byoc_slice request, byoc_constants constants, byoc_slices blobs,
                    byoc_output out, byoc_sink error) BYOC_NOEXCEPT {
    byoc_json_value region = byoc_json_get(byoc_json_of(request), "region");
    (void)backend, (void)constants, (void)blobs, (void)error;
    if (byoc_is(method, "describe")) return describe(byoc_bytes(out));
    if (byoc_is(method, "patterns")) return byoc_put(byoc_bytes(out), "[{\"name\":\"concat\",\"text\":\"(StringConcat ?x ?y)\"}]");
    if (byoc_is(method, "check"))
        return same_shape(region) ? BYOC_OK : byoc_refuse(byoc_bytes(out), "shape", "the texts have two shapes");
    if (byoc_is(method, "codegen")) return byoc_put(byoc_bytes(out), "concat");
    return BYOC_UNKNOWN;
}

/* A region that is ready to run, with the table that it is lent. */
typedef struct {
    byoc_text_table texts;
} loaded;

static int32_t load(size_t backend, byoc_slice code, byoc_constants constants, byoc_slice environment, void **executable,
                    byoc_sink error) BYOC_NOEXCEPT {
    (void)backend, (void)code, (void)constants, (void)environment;
    *executable = calloc(1, sizeof(loaded));
    return *executable ? BYOC_OK : byoc_fail(error, "out of memory");
}

static int32_t lend(void *executable, byoc_text_table texts, byoc_sink error) BYOC_NOEXCEPT {
    (void)error;
    ((loaded *)executable)->texts = texts;
    return BYOC_OK;
}

static int32_t run(void *executable, byoc_tensors inputs, byoc_tensors outputs, byoc_sink error) BYOC_NOEXCEPT {
    byoc_text_table texts = ((loaded *)executable)->texts;
    const uint64_t *a, *b;
    uint64_t *y;
    int64_t size = 1, index;
    int32_t axis;
    if (inputs.len != 2 || outputs.len != 1) return byoc_fail(error, "two tensors are expected");
    a = (const uint64_t *)inputs.data[0].data;
    b = (const uint64_t *)inputs.data[1].data;
    y = (uint64_t *)outputs.data[0].data;
    for (axis = 0; axis < outputs.data[0].ndim; axis++) size *= outputs.data[0].shape[axis];
    for (index = 0; index < size; index++) {
        byoc_slice first, second, both;
        uint8_t *joined;
        int32_t added;
        if (texts.get(texts.context, a[index], &first) != BYOC_OK || texts.get(texts.context, b[index], &second) != BYOC_OK)
            return byoc_fail(error, "a text is not there");
        both.len = first.len + second.len;
        joined = (uint8_t *)malloc(both.len + 1);
        if (!joined) return byoc_fail(error, "out of memory");
        memcpy(joined, first.data, first.len);
        memcpy(joined + first.len, second.data, second.len);
        both.data = joined;
        added = texts.add(texts.context, both, &y[index]);
        free(joined);
        if (added != BYOC_OK) return byoc_fail(error, "the host takes no more texts");
    }
    return BYOC_OK;
}

static void free_executable(void *executable) BYOC_NOEXCEPT { free(executable); }

static const byoc_strings_table strings_table = {sizeof(byoc_strings_table), lend};

static const void *extension(size_t backend, byoc_slice id, uint32_t version) BYOC_NOEXCEPT {
    (void)backend;
    return byoc_is(id, BYOC_STRINGS) && version == BYOC_STRINGS_VERSION ? &strings_table : NULL;
}

const byoc_info byoc_plugin_info = BYOC_PLUGIN_INFO("cstrings", "1.0.0");

BYOC_PLUGIN_MANIFEST("cstrings", "1.0.0", "[\"cstrings\"]");

const byoc_table byoc_plugin_table = {
    sizeof(byoc_table), count, call, load, run, free_executable, extension,
};
