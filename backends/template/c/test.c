/* A region on its whole way through the backend, without byoc: check, codegen, constant_updater, load, run. */

#include "byoc_json.h"

/* The constant `w` has the id 7; byoc may give any number. */
#define REGION(TYPE, SIZE) \
    "{\"schema\":\"byoc-region/1\",\"symbol\":\"byoc_main_template_0\",\"values\":[" \
    "{\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[2]}," \
    "{\"name\":\"w\",\"dtype\":\"" TYPE "\",\"shape\":[" SIZE "]}," \
    "{\"name\":\"y\",\"dtype\":\"f32\",\"shape\":[2]}]," \
    "\"inputs\":[0],\"outputs\":[2],\"constants\":[{\"id\":7,\"value\":1}]," \
    "\"nodes\":[{\"name\":\"sum\",\"op\":\"Add\",\"inputs\":[0,1],\"outputs\":[2]}]}"

static int failures = 0;

#define EXPECT(CONDITION) \
    ((CONDITION) ? (void)0 : (void)(failures++, fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #CONDITION)))

/* What was written into a sink. */
typedef struct {
    uint8_t bytes[1024];
    size_t len;
} buffer;

static int32_t append(void *context, byoc_slice bytes) {
    buffer *buffer_ = (buffer *)context;
    if (bytes.len >= sizeof buffer_->bytes - buffer_->len) return BYOC_FAILED;
    memcpy(buffer_->bytes + buffer_->len, bytes.data, bytes.len);
    buffer_->len += bytes.len;
    buffer_->bytes[buffer_->len] = 0;
    return BYOC_OK;
}

static byoc_sink sink_of(buffer *target) {
    byoc_sink sink;
    target->len = 0;
    target->bytes[0] = 0;
    sink.context = target;
    sink.write = append;
    return sink;
}

static int is(const buffer *found, const char *text) { return strcmp((const char *)found->bytes, text) == 0; }

static byoc_slice text(const char *bytes) {
    byoc_slice slice;
    slice.data = (const uint8_t *)bytes;
    slice.len = strlen(bytes);
    return slice;
}

static buffer output, error;
static const byoc_constants NO_CONSTANTS = {NULL, 0};
static const byoc_slices NO_BLOBS = {NULL, 0};

/* Calls a method that gets a region; bytes and items of the answer go into `output`. */
static int32_t call(const char *method, const char *region) {
    char request[1024];
    byoc_output out;
    (void)snprintf(request, sizeof request, "{\"options\":{},\"region\":%s}", region);
    out.context = sink_of(&output).context;
    out.item = append;
    out.write = append;
    out.event = append;
    return byoc_plugin_table.call(0, text(method), text(request), NO_CONSTANTS, NO_BLOBS, out, sink_of(&error));
}

static void refuses(const char *region, const char *refusal) {
    EXPECT(call("check", region) == BYOC_OK);
    EXPECT(is(&output, refusal));
}

static void claims_each_constant_once(void) {
    EXPECT(call("constant_updater", REGION("f32", "2")) == BYOC_OK);
    EXPECT(is(&output, "{\"id\":7,\"claim\":\"host\"}"));
}

static void methods_of_a_later_version_are_unknown(void) { EXPECT(call("foretell", "{}") == BYOC_UNKNOWN); }

/* A tensor of two elements. */
static byoc_tensor tensor(float *data) {
    static const int64_t shape[] = {2}, strides[] = {1};
    byoc_tensor result;
    memset(&result, 0, sizeof result);
    result.data = data;
    result.device.device_type = 1;
    result.ndim = 1;
    result.dtype.code = 2;
    result.dtype.bits = 32;
    result.dtype.lanes = 1;
    result.shape = shape;
    result.strides = strides;
    return result;
}

static void a_region_runs(void) {
    static const char environment[] = "{\"threads\":1,\"options\":{}}";
    static const int64_t no_stride = 0;
    const byoc_table *table = &byoc_plugin_table;
    const char *region = REGION("f32", "2");
    float x[] = {1, 2}, w[] = {10, 20}, y[] = {0, 0};
    byoc_tensor input = tensor(x), result = tensor(y);
    byoc_constant constant;
    byoc_constants constants;
    byoc_tensors inputs, outputs;
    byoc_slice code;
    void *executable = NULL;
    memset(&constant, 0, sizeof constant);
    constant.id = 7;
    constant.tensor = tensor(w);
    constants.data = &constant;
    inputs.data = &input;
    outputs.data = &result;
    constants.len = inputs.len = outputs.len = 1;
    EXPECT(call("check", region) == BYOC_OK);
    EXPECT(is(&output, ""));
    EXPECT(call("codegen", region) == BYOC_OK);
    code.data = output.bytes;
    code.len = output.len;
    EXPECT(table->load(0, code, NO_CONSTANTS, text(environment), &executable, sink_of(&error)) == BYOC_FAILED);
    EXPECT(is(&error, "a constant is not bound"));
    EXPECT(table->load(0, text(""), constants, text(environment), &executable, sink_of(&error)) == BYOC_FAILED);
    EXPECT(is(&error, "damaged code"));
    EXPECT(table->load(0, code, constants, text(environment), &executable, sink_of(&error)) == BYOC_OK);
    if (!executable) return;
    EXPECT(table->run(executable, inputs, outputs, sink_of(&error)) == BYOC_OK);
    EXPECT(y[0] == 11 && y[1] == 22);
    table->free(executable);
    /* The same constant, read with other strides: its first element twice. */
    constant.tensor.strides = &no_stride;
    executable = NULL;
    EXPECT(table->load(0, code, constants, text(environment), &executable, sink_of(&error)) == BYOC_OK);
    if (!executable) return;
    EXPECT(table->run(executable, inputs, outputs, sink_of(&error)) == BYOC_OK);
    EXPECT(y[0] == 11 && y[1] == 12);
    table->free(executable);
}

int main(void) {
    refuses(REGION("i32", "2"), "{\"code\":\"type\",\"message\":\"only f32 is taken\"}");
    refuses(REGION("f32", "1"), "{\"code\":\"shape\",\"message\":\"the two tensors differ in shape\"}");
    claims_each_constant_once();
    methods_of_a_later_version_are_unknown();
    a_region_runs();
    if (failures == 0) printf("all tests pass\n");
    return failures != 0;
}
