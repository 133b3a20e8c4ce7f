/* Runs an artifact whose inputs are all of f32 on ones, and prints the first element of each output.
 *
 *     cc run.c -lbyoc -o run && ./run model.byoc
 */
#include <byoc.h>
#include <stdio.h>
#include <stdlib.h>

/* Says what went wrong, and ends. */
static void check(byoc_status status) {
    if (status == BYOC_STATUS_OK) {
        return;
    }
    const char *hint = byoc_error_hint();
    fprintf(stderr, "[%s] %s%s%s\n", byoc_error_code(), byoc_error_message(), hint ? ". " : "", hint ? hint : "");
    exit(1);
}

int main(int count, char **arguments) {
    uint64_t session;
    size_t inputs, outputs, index;
    byoc_array *arrays;

    if (count != 2) {
        fprintf(stderr, "usage: %s ARTIFACT\n", arguments[0]);
        return 2;
    }
    check(byoc_open(arguments[1], NULL, &session));
    check(byoc_input_count(session, &inputs));
    arrays = (byoc_array *)calloc(inputs + 1, sizeof(byoc_array));
    for (index = 0; index < inputs; index++) {
        byoc_port port;
        size_t elements = 1, element;
        int64_t *shape;
        float *data;
        int32_t axis;

        check(byoc_input_port(session, index, &port));
        shape = (int64_t *)calloc((size_t)port.rank + 1, sizeof(int64_t));
        for (axis = 0; axis < port.rank; axis++) {
            shape[axis] = port.shape[axis] < 0 ? 1 : port.shape[axis]; /* An open size. */
            elements *= (size_t)shape[axis];
        }
        data = (float *)malloc(elements * sizeof(float));
        for (element = 0; element < elements; element++) {
            data[element] = 1.0f;
        }
        arrays[index].data = data;
        arrays[index].bytes = elements * sizeof(float);
        arrays[index].element = BYOC_F32;
        arrays[index].rank = port.rank;
        arrays[index].shape = shape;
    }
    check(byoc_run(session, arrays, inputs));
    check(byoc_output_count(session, &outputs));
    for (index = 0; index < outputs; index++) {
        byoc_port port;
        byoc_array found;

        check(byoc_output_port(session, index, &port));
        check(byoc_result(session, index, &found));
        printf("%s: %.6g\n", port.name, found.bytes ? (double)*(const float *)found.data : 0.0);
    }
    for (index = 0; index < inputs; index++) {
        free((void *)arrays[index].data);
        free((void *)arrays[index].shape);
    }
    free(arrays);
    check(byoc_close(session));
    return 0;
}
