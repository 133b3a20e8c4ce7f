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
