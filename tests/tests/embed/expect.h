/* What programs expect of a call: that it fails with a code, or works. What is wrong is told, and counted. */
#include <byoc.h>

#include <stdio.h>
#include <string.h>

static int wrong = 0;

static void expect(int line, byoc_status status, const char *code) {
    const char *found = status == BYOC_STATUS_OK ? "" : byoc_error_code();
    if (strcmp(found ? found : "(none)", code) != 0) {
        fprintf(stderr, "line %d: [%s] %s, not [%s]\n", line, found ? found : "(none)", byoc_error_message(), code);
        wrong++;
    }
}
#define FAILS(code, call) expect(__LINE__, call, code)
#define WORKS(call) expect(__LINE__, call, "")

/* The sum of the first output, which is of f32. */
static inline double sum(uint64_t session) {
    byoc_array found;
    double all = 0;
    size_t index;
    memset(&found, 0, sizeof found);
    WORKS(byoc_result(session, 0, &found));
    for (index = 0; index < found.bytes / sizeof(float); index++) {
        all += ((const float *)found.data)[index];
    }
    return all;
}
