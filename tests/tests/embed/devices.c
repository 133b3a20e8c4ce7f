/* Tensors in the memory of a device. The arguments are an artifact of y = x + w and curved = tanh(relu(x)), with x: f32[n,2] and
 * three rows {0.5, -0.5} in w, of which a simulated device computes all but tanh; the plugin of that device; and the file to which it writes what is called there. */
#define _POSIX_C_SOURCE 200809L
#include "expect.h"

#include <stdlib.h>

#define IS(what)                                                   \
    do {                                                           \
        if (!(what)) {                                             \
            fprintf(stderr, "line %d: not %s\n", __LINE__, #what); \
            wrong++;                                               \
        }                                                          \
    } while (0)

/* The element at `index` of an output, on the host. */
static float element(uint64_t session, size_t output, size_t index) {
    byoc_array found;
    memset(&found, 0, sizeof found);
    WORKS(byoc_result(session, output, &found));
    return found.bytes > index * sizeof(float) ? ((const float *)found.data)[index] : -1;
}

static int failing(const char *message) {
    return byoc_error_message() == NULL || strcmp(byoc_error_message(), message) != 0;
}

int main(int count, char **arguments) {
    static const int64_t shape[2] = {1, 2};
    static const float ones[2] = {1, 1};
    byoc_options options;
    byoc_device_info device;
    byoc_device_array x, y, curved, place;
    byoc_array array;
    const char *plugins[1];
    uint64_t session = 0;
    size_t devices = 0;

    if (count != 4) {
        return 2;
    }
    setenv("BYOC_SIMDEV_LOG", arguments[3], 1);
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    plugins[0] = arguments[2];
    options.plugins = plugins;
    options.plugin_count = 1;
    /* The plugin would run in processes of a program that is not there. */
    options.isolate_by = "/nowhere/byoc";
    FAILS("B601", byoc_open(arguments[1], &options, &session));
    options.isolate_by = NULL;
    WORKS(byoc_open(arguments[1], &options, &session));

    WORKS(byoc_device_count(session, &devices));
    IS(devices == 1);
    FAILS("B901", byoc_device_count(session, NULL));
    FAILS("B901", byoc_device_count(77, &devices));
    FAILS("B901", byoc_device_at(session, 1, &device));
    FAILS("B901", byoc_device_at(session, 0, NULL));
    WORKS(byoc_device_at(session, 0, &device));
    IS(strcmp(device.name, "sim:0") == 0 && device.device_type == 12 && device.device_id == 0);
    IS(device.context != NULL && device.queue == NULL);

    /* Before the first run there is nothing. */
    FAILS("B703", byoc_device_input(session, 0, &place));
    FAILS("B703", byoc_device_result(session, 0, &y));
    FAILS("B901", byoc_device_input(session, 1, &place));
    FAILS("B901", byoc_device_result(session, 2, &y));
    FAILS("B901", byoc_device_input(77, 0, &place));

    memset(&x, 0, sizeof x);
    x.data = ones;
    x.bytes = sizeof ones;
    x.element = BYOC_F32;
    x.rank = 2;
    x.shape = shape;
    x.device_type = 1;
    FAILS("B701", byoc_run_on_devices(session, &x, 0));
    FAILS("B901", byoc_run_on_devices(session, NULL, 1));
    WORKS(byoc_run_on_devices(session, &x, 1));

    /* The sum is on the device, the rest on the host; what is asked for there is fetched. */
    FAILS("B901", byoc_device_result(session, 0, NULL));
    WORKS(byoc_device_result(session, 0, &y));
    IS(y.device_type == 12 && y.device_id == 0 && y.bytes == 24 && y.element == BYOC_F32 && y.rank == 2 && y.shape[0] == 3);
    WORKS(byoc_device_result(session, 1, &curved));
    IS(curved.device_type == 1 && ((const float *)curved.data)[0] > 0.7f);
    IS(element(session, 0, 0) == 1.5f && element(session, 0, 1) == 0.5f);

    /* Fed back, the sum has another shape than x had, and goes over the host; then it stays on the device. */
    WORKS(byoc_run_on_devices(session, &y, 1));
    WORKS(byoc_device_result(session, 0, &y));
    WORKS(byoc_run_on_devices(session, &y, 1));
    IS(element(session, 0, 0) == 2.5f && element(session, 0, 1) == -0.5f);

    /* What is in the place of the input is not copied. */
    FAILS("B901", byoc_device_input(session, 0, NULL));
    WORKS(byoc_device_input(session, 0, &place));
    IS(place.device_type == 12 && place.data != y.data && place.bytes == 24);
    WORKS(byoc_run_on_devices(session, &place, 1));
    IS(element(session, 0, 0) == 2.5f && element(session, 0, 1) == -0.5f);

    /* A run of the host's copies all. */
    memset(&array, 0, sizeof array);
    array.data = ones;
    array.bytes = sizeof ones;
    array.element = BYOC_F32;
    array.rank = 2;
    array.shape = shape;
    WORKS(byoc_run(session, &array, 1));
    IS(element(session, 0, 0) == 1.5f && element(session, 0, 1) == 0.5f);

    /* Fed back on the host, where its shape is in memory that the next run gives back. */
    WORKS(byoc_result(session, 0, &array));
    WORKS(byoc_run(session, &array, 1));
    IS(element(session, 0, 0) == 2 && element(session, 0, 1) == 0);
    WORKS(byoc_result(session, 0, &array));
    array.element = BYOC_F64;
    FAILS("B701", byoc_run(session, &array, 1));

    /* Mistakes. */
    WORKS(byoc_device_result(session, 0, &y));
    y.bytes = 7;
    FAILS("B701", byoc_run_on_devices(session, &y, 1));
    IS(!failing("input 0: 7 bytes are given for a tensor of f32[3,2]"));
    y.bytes = 24;
    y.device_id = 1;
    FAILS("B701", byoc_run_on_devices(session, &y, 1));
    IS(!failing("input 'x' is on device 1 of DLPack's type 12, the session uses sim:0"));
    y.device_id = 0;
    y.element = BYOC_F64;
    FAILS("B701", byoc_run_on_devices(session, &y, 1));
    y.element = 99;
    FAILS("B701", byoc_run_on_devices(session, &y, 1));
    y.element = BYOC_F32;
    y.data = NULL;
    FAILS("B901", byoc_run_on_devices(session, &y, 1));
    y.rank = -1;
    FAILS("B701", byoc_run_on_devices(session, &y, 1));

    WORKS(byoc_close(session));
    FAILS("B901", byoc_run_on_devices(session, &x, 1));
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
