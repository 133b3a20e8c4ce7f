/* The log, errors, devices and contexts. */

#include "standin.h"

#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

int initialized, broken;
__thread struct context *current;
__thread int captures, refused;
static struct context contexts[MOST_DEVICES];

long long setting(const char *name, long long otherwise) {
    const char *text = getenv(name);
    return text && *text ? atoll(text) : otherwise;
}

/* Appends a line to the log. */
void standin_log(const char *format, ...) {
    const char *path = getenv("STANDIN_LOG");
    if (!path) return;
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof line - 2) length = sizeof line - 2;
    line[length] = '\n';
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (file < 0) return;
    if (write(file, line, length + 1) < 0) abort();
    close(file);
}

/* What every call that works on a context needs. A device that failed stays so for the rest of the process. */
int ready(void) {
    if (!initialized) return NOT_INITIALIZED;
    if (broken) return broken;
    return current && current->retained > 0 ? SUCCESS : INVALID_CONTEXT;
}

/* The same for calls that must not happen while the thread captures. */
int ready_outside_capture(const char *call) {
    int status = ready();
    if (status) return status;
    if (!captures) return SUCCESS;
    refused++;
    standin_log("refused %s during capture", call);
    return CAPTURE_UNSUPPORTED;
}

static const struct { int code; const char *name, *text; } ERRORS[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {NO_BINARY, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
    {CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static int error_text(int code, const char **text, int name) {
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].code == code) {
            *text = name ? ERRORS[i].name : ERRORS[i].text;
            return SUCCESS;
        }
    *text = NULL;
    return INVALID_VALUE;
}

int cuGetErrorName(int code, const char **text) { return error_text(code, text, 1); }
int cuGetErrorString(int code, const char **text) { return error_text(code, text, 0); }

int cuDriverGetVersion(int *version) {
    *version = (int)setting("STANDIN_DRIVER", 13000);
    return SUCCESS;
}

static int device_count(void) {
    int count = (int)setting("STANDIN_DEVICES", 1);
    return count < MOST_DEVICES ? count : MOST_DEVICES;
}

int cuInit(unsigned flags) {
    int status = (int)setting("STANDIN_INIT", SUCCESS);
    if (flags) return INVALID_VALUE;
    if (status) return status;
    if (device_count() == 0) return NO_DEVICE;
    for (int i = 0; i < MOST_DEVICES; i++) contexts[i].device = i;
    initialized = 1;
    return SUCCESS;
}

int cuDeviceGetCount(int *count) {
    if (!initialized) return NOT_INITIALIZED;
    *count = device_count();
    return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal) {
    if (!initialized) return NOT_INITIALIZED;
    if (ordinal < 0 || ordinal >= device_count()) return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}

int cuDeviceGetName(char *name, int length, int device) {
    if (device < 0 || device >= device_count()) return INVALID_DEVICE;
    if (device == setting("STANDIN_LOST", -1)) return INVALID_DEVICE;
    snprintf(name, length, "stand-in %d", device);
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    static const int VALUES[][2] = {
        {1, MOST_THREADS}, {8, SHARED}, {10, 32}, {16, 132}, {97, MOST_SHARED}, {115, 1},
    };
    if (device < 0 || device >= device_count()) return INVALID_DEVICE;
    int capability = (int)setting("STANDIN_CAPABILITY", 90);
    if (attribute == 75 || attribute == 76) {
        *value = attribute == 75 ? capability / 10 : capability % 10;
        return SUCCESS;
    }
    for (size_t i = 0; i < sizeof VALUES / sizeof *VALUES; i++)
        if (VALUES[i][0] == attribute) {
            *value = VALUES[i][1];
            return SUCCESS;
        }
    return INVALID_VALUE;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    if (device < 0 || device >= device_count()) return INVALID_DEVICE;
    *bytes = (size_t)setting("STANDIN_MEMORY", 1LL << 30);
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(struct context **context, int device) {
    if (!initialized) return NOT_INITIALIZED;
    if (device < 0 || device >= device_count()) return INVALID_DEVICE;
    *context = &contexts[device];
    int retained = __atomic_add_fetch(&contexts[device].retained, 1, __ATOMIC_SEQ_CST);
    standin_log("retain %d: %d", device, retained);
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    if (device < 0 || device >= device_count()) return INVALID_DEVICE;
    if (contexts[device].retained == 0) return INVALID_CONTEXT;
    const struct context *context = &contexts[device];
    int retained = __atomic_sub_fetch(&contexts[device].retained, 1, __ATOMIC_SEQ_CST);
    standin_log("release %d: %d, %llu bytes live", device, retained, (unsigned long long)context->used);
    static const char *const NAMES[KINDS] = {"host memory", "streams", "events", "graphs"};
    for (int kind = 0; kind < KINDS && !retained; kind++)
        if (context->live[kind]) standin_log("left over on %d: %d %s", device, context->live[kind], NAMES[kind]);
    return SUCCESS;
}

int cuCtxSetCurrent(struct context *context) {
    if (!initialized) return NOT_INITIALIZED;
    if (context && context->retained == 0) return INVALID_CONTEXT;
    current = context;
    return SUCCESS;
}

int cuCtxGetCurrent(struct context **context) {
    if (!initialized) return NOT_INITIALIZED;
    *context = current;
    return SUCCESS;
}

int cuCtxSynchronize(void) {
    READY_OUTSIDE_CAPTURE("synchronize");
    standin_log("synchronize context");
    return SUCCESS;
}
