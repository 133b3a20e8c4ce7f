/* A stand-in for NVRTC, for tests on machines without a GPU: it compiles CUDA C++ by the host's g++, to a shared object that
 * runs kernels on the host (standins/cpu says how), and calls that a cubin. The stand-in for the driver runs it.
 *
 * Options of NVRTC that do not affect the language are left out, and so are folders of headers that do not exist. Errors
 * are g++'s, in the form of NVRTC's log. The same source gives the same bytes. What it cannot show: that a source compiles
 * for a device at all, what a kernel uses of registers and shared memory, and everything under #ifndef BYOC_ON_CPU.
 *
 * Settings, read from the environment:
 *   STANDIN_LOG  a file to which one line is appended for each source that is compiled
 *   STANDIN_CXX  the compiler; g++
 *
 * Compile with -DSTANDIN_CPU="<folder of byoc_on_cpu.h>":
 *   cc -std=c11 -shared -fPIC -Wl,-soname,libnvrtc.so.13 -o libnvrtc.so.13 *.c */

#define _GNU_SOURCE

#include <elf.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Numbers of nvrtc.h. */
enum { SUCCESS = 0, OUT_OF_MEMORY = 1, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6, INTERNAL = 11 };
enum { EM_OF_CUDA = 190 };

static const int ARCHES[] = {75, 80, 86, 89, 90, 100, 120};
enum { COUNT = sizeof ARCHES / sizeof *ARCHES };

extern char **environ;

struct program {
    char *name, *source, *log, *cubin;
    size_t size;
};

int nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return SUCCESS;
}

int nvrtcGetNumSupportedArchs(int *count) {
    *count = COUNT;
    return SUCCESS;
}

int nvrtcGetSupportedArchs(int *arches) {
    memcpy(arches, ARCHES, sizeof ARCHES);
    return SUCCESS;
}

const char *nvrtcGetErrorString(int code) {
    switch (code) {
    case SUCCESS: return "NVRTC_SUCCESS";
    case INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
    case INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
    case INVALID_OPTION: return "NVRTC_ERROR_INVALID_OPTION";
    case COMPILATION: return "NVRTC_ERROR_COMPILATION";
    default: return "NVRTC_ERROR_INTERNAL_ERROR";
    }
}

int nvrtcCreateProgram(struct program **program, const char *source, const char *name, int headers,
                       const char *const *texts, const char *const *names) {
    (void)texts, (void)names;
    if (!source || headers) return INVALID_INPUT;
    *program = calloc(1, sizeof **program);
    **program = (struct program){strdup(name ? name : "default_program"), strdup(source), strdup(""), NULL, 0};
    return SUCCESS;
}

int nvrtcDestroyProgram(struct program **program) {
    if (!program || !*program) return INVALID_PROGRAM;
    free((*program)->name);
    free((*program)->source);
    free((*program)->log);
    free((*program)->cubin);
    free(*program);
    *program = NULL;
    return SUCCESS;
}

static void note(const struct program *program, const char *arch) {
    const char *path = getenv("STANDIN_LOG"), *base = strrchr(program->name, '/');
    FILE *log = path ? fopen(path, "a") : NULL;
    if (!log) return;
    fprintf(log, "compile %s for %s\n", base ? base + 1 : program->name, arch);
    fclose(log);
}

/* Writes a line for each `extern "C" __global__ void name(`, which makes a kernel of it. */
static void write_kernels(FILE *file, const char *source) {
    static const char BEGIN[] = "extern \"C\" __global__";
    for (const char *at = source; (at = strstr(at, BEGIN));) {
        at += strlen(BEGIN);
        const char *bounds = strstr(at, "__launch_bounds__"), *open = strchr(at, '(');
        if (bounds && open && bounds < open) {
            int depth = 0;
            do depth += (*open == '(') - (*open == ')'), open++;
            while (*open && depth);
            open = strchr(open, '(');
        }
        if (!open) return;
        const char *end = open, *start;
        while (end > at && (end[-1] == ' ' || end[-1] == '\n')) end--;
        for (start = end; start > at && start[-1] != ' ' && start[-1] != '\n'; start--) {}
        fprintf(file, "BYOC_KERNEL(%.*s)\n", (int)(end - start), start);
    }
}

static char *contents(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    *size = ftell(file);
    rewind(file);
    char *bytes = malloc(*size + 1);
    *size = fread(bytes, 1, *size, file);
    bytes[*size] = 0;
    fclose(file);
    return bytes;
}

/* Turns `file:line:column: error:` into `file(line): error:`, and leaves out what comes before the first error. What the
 * linker says stays as it is. */
static char *log_of(const char *text) {
    static const char FATAL[] = " fatal error:";
    char *log = calloc(2, strlen(text) + 1), *to = log;
    for (const char *line = text, *next; *line; line = next) {
        const char *end = strchrnul(line, '\n'), *name = strchr(line, ':');
        next = *end ? end + 1 : end;
        int number, used = 0;
        if (name && name < end && sscanf(name, ":%d:%*d:%n", &number, &used) == 1 && used) {
            const char *said = name + used, *fatal = !strncmp(said, FATAL, strlen(FATAL)) ? " catastrophic" : "";
            if (*fatal) said += strlen(" fatal");
            if (to == log && strncmp(said, " error:", 7)) continue;
            to += sprintf(to, "%.*s(%d):%s%.*s\n", (int)(name - line), line, number, fatal, (int)(end - said), said);
        } else if (to != log) {
            to += sprintf(to, "%.*s\n", (int)(end - line), line);
        }
    }
    return to == log ? strcpy(log, text) : log;
}

/* Runs a program, with its errors in a file. Whether it ended well. */
static int spawn(char **arguments, const char *errors) {
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int failed = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed) return 0;
    while (waitpid(child, &status, 0) < 0) {}
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int write_source(const struct program *program, const char *path, const char *arch) {
    FILE *file = fopen(path, "w");
    if (!file) return 0;
    fprintf(file, "#line 1 \"%s\"\n%s\n", program->name, program->source);
    write_kernels(file, program->source);
    fprintf(file, "extern \"C\" const char byoc_cpu_arch[] = \"%s\";\n", arch);
    return fclose(file) == 0;
}

/* Compiles within a folder of its own. */
static int compile(struct program *program, const char *arch, const char **passed, int count, const char *folder) {
    char source[80], object[80], errors[80], number[40];
    snprintf(source, sizeof source, "%s/kernels.cpp", folder);
    snprintf(object, sizeof object, "%s/kernels.so", folder);
    snprintf(errors, sizeof errors, "%s/errors", folder);
    snprintf(number, sizeof number, "-D__CUDA_ARCH__=%d0", atoi(arch + 3));
    if (!write_source(program, source, arch)) return INTERNAL;
    const char *compiler = getenv("STANDIN_CXX");
    const char *always[] = {
        "env", "LC_ALL=C", compiler && *compiler ? compiler : "g++", "-std=c++17", "-O2", "-w", "-DBYOC_ON_CPU", number, "-include",
        STANDIN_CPU "/byoc_on_cpu.h", "-nostdinc++", "-fno-exceptions", "-fno-rtti", "-fno-strict-aliasing", "-fdata-sections",
        "-fno-gnu-unique", "-fno-ident", "-fno-asynchronous-unwind-tables", "-fcf-protection=none", "-frandom-seed=0",
        "-fno-diagnostics-show-caret", "-fdiagnostics-color=never", "-fPIC", "-shared", "-Wl,-Bsymbolic", "-Wl,--build-id=none",
        "-Wl,-z,noexecstack", "-Wl,-z,defs", "-Wl,-T," STANDIN_CPU "/shared.ld", "-o", object, source,
    };
    enum { ALWAYS = sizeof always / sizeof *always };
    char **arguments = calloc(ALWAYS + count + 3, sizeof *arguments);
    for (int i = 0; i < ALWAYS; i++) arguments[i] = (char *)always[i];
    for (int i = 0; i < count; i++) arguments[ALWAYS + i] = (char *)passed[i];
    arguments[ALWAYS + count] = "-lm";
    int well = spawn(arguments, errors);
    free(arguments);
    size_t length = 0;
    char *said = contents(errors, &length);
    free(program->log);
    program->log = well || !said ? strdup("") : log_of(said);
    free(said);
    if (well) program->cubin = contents(object, &program->size);
    unlink(source), unlink(object), unlink(errors);
    if (!well) return COMPILATION;
    if (!program->cubin || program->size < sizeof(Elf64_Ehdr)) return INTERNAL;
    ((Elf64_Ehdr *)program->cubin)->e_machine = EM_OF_CUDA;
    return SUCCESS;
}

int nvrtcCompileProgram(struct program *program, int count, const char *const *options) {
    const char *arch = "sm_75", *passed[64];
    int passes = 0;
    for (int i = 0; i < count; i++) {
        const char *option = options[i], *is = strchr(option, '=');
        if (!strncmp(option, "--gpu-architecture=", 19) || !strncmp(option, "-arch=", 6)) arch = is + 1;
        else if ((!strncmp(option, "-D", 2) || !strncmp(option, "-I", 2)) && passes < 64) passed[passes++] = option;
    }
    if (strncmp(arch, "sm_", 3)) return INVALID_OPTION;
    char folder[] = "/tmp/standin-nvrtc-XXXXXX";
    if (!mkdtemp(folder)) return INTERNAL;
    note(program, arch);
    int status = compile(program, arch, passed, passes, folder);
    rmdir(folder);
    return status;
}

int nvrtcGetCUBINSize(struct program *program, size_t *size) {
    *size = program->size;
    return SUCCESS;
}

int nvrtcGetCUBIN(struct program *program, char *cubin) {
    memcpy(cubin, program->cubin, program->size);
    return SUCCESS;
}

int nvrtcGetProgramLogSize(struct program *program, size_t *size) {
    *size = strlen(program->log) + 1;
    return SUCCESS;
}

int nvrtcGetProgramLog(struct program *program, char *log) {
    strcpy(log, program->log);
    return SUCCESS;
}
