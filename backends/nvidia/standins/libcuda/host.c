/* Kernels that run on the host: objects of the stand-in for NVRTC (cpu/byoc_on_cpu.h), which are loaded as libraries. */

#define _GNU_SOURCE

#include "standin.h"

#include <dlfcn.h>
#include <elf.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

static const char MARK[] = "byoc_cpu_launch";

/* A processor takes microseconds for a block, where a GPU takes thousands of them at once: a grid of more blocks than any test has
 * would not end within a test. */
enum { ALIGNMENT = 64, MOST_PARAMETERS = 4096, MOST_BLOCKS = 1 << 18 };

/* Finds a symbol that is defined. */
static const Elf64_Sym *symbol_of(const void *image, const char *name) {
    const char *bytes = image;
    const Elf64_Ehdr *file = image;
    const Elf64_Shdr *sections = (const void *)(bytes + file->e_shoff);
    for (int s = 0; s < file->e_shnum; s++) {
        if (sections[s].sh_type != SHT_SYMTAB) continue;
        const char *names = bytes + sections[sections[s].sh_link].sh_offset;
        const Elf64_Sym *symbols = (const void *)(bytes + sections[s].sh_offset);
        for (size_t i = 0; i < sections[s].sh_size / sizeof *symbols; i++)
            if (symbols[i].st_shndx != SHN_UNDEF && !strcmp(names + symbols[i].st_name, name)) return &symbols[i];
    }
    return NULL;
}

int is_host_object(const void *image) { return symbol_of(image, MARK) != NULL; }

/* Whether the device runs code of an architecture, such as sm_90a. */
static int runs(const char *arch) {
    char *form;
    long device = setting("STANDIN_CAPABILITY", 90), number = strtol(arch + 3, &form, 10);
    if (*form == 'a') return number == device;
    return number / 10 == device / 10 && number <= device;
}

/* A file in memory with the object as one for the host. The table of sections is the last thing in it. */
static int file_of(const void *image) {
    const Elf64_Ehdr *file = image;
    size_t bytes = file->e_shoff + (size_t)file->e_shnum * file->e_shentsize;
    int handle = memfd_create("kernels", MFD_CLOEXEC);
    Elf64_Half machine = EM_X86_64;
    if (handle < 0 || write(handle, image, bytes) != (ssize_t)bytes ||
        pwrite(handle, &machine, sizeof machine, offsetof(Elf64_Ehdr, e_machine)) != sizeof machine) abort();
    return handle;
}

/* A file stays open as long as the library: the loader knows it by its number. */
int open_on_host(struct module *module, const void *image) {
    char path[64];
    module->file = file_of(image);
    snprintf(path, sizeof path, "/proc/self/fd/%d", module->file);
    module->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *arch = module->library ? dlsym(module->library, "byoc_cpu_arch") : NULL;
    int status = !module->library || !arch ? INVALID_IMAGE : runs(arch) ? SUCCESS : NO_BINARY;
    if (status) {
        if (!module->library) standin_log("%s", dlerror());
        close_on_host(module);
        return status;
    }
    module->launch = (launch *)dlsym(module->library, MARK);
    const char *bytes = image;
    const Elf64_Ehdr *file = image;
    const Elf64_Shdr *sections = (const void *)(bytes + file->e_shoff);
    for (int s = 0; s < file->e_shnum; s++) {
        if (sections[s].sh_type != SHT_DYNSYM) continue;
        const char *names = bytes + sections[sections[s].sh_link].sh_offset;
        const Elf64_Sym *symbols = (const void *)(bytes + sections[s].sh_offset);
        for (size_t i = 0; i < sections[s].sh_size / sizeof *symbols; i++) {
            const char *name = names + symbols[i].st_name;
            int kind = ELF64_ST_TYPE(symbols[i].st_info);
            if (symbols[i].st_shndx == SHN_UNDEF || (kind != STT_OBJECT && kind != STT_FUNC)) continue;
            char table[256];
            snprintf(table, sizeof table, "byoc_cpu_kernel_%s", name);
            struct symbol *new = calloc(1, sizeof *new);
            *new = (struct symbol){strdup(name), kind, 0, symbols[i].st_size, SHARED, NULL, module, module->symbols};
            module->symbols = new;
            if (kind == STT_FUNC) new->kernel = dlsym(module->library, table);
            else if (strncmp(name, "byoc_cpu_", 9)) adopt((void *)(new->device = (uint64_t)dlsym(module->library, name)), new->bytes);
        }
    }
    return SUCCESS;
}

void close_on_host(struct module *module) {
    if (module->library) dlclose(module->library);
    if (module->file) close(module->file);
}

/* The functions that CUDA's own libraries exchange beside the public ones: there are none. NVRTC asks for some. */
int cuGetExportTable(const void **table, const void *id) {
    (void)id;
    *table = NULL;
    return INVALID_VALUE;
}

int cuFuncGetParamInfo(struct symbol *function, size_t position, size_t *offset, size_t *bytes) {
    READY();
    if (!function->kernel || position >= function->kernel->parameters) return INVALID_VALUE;
    *offset = 0;
    *bytes = function->kernel->sizes[position];
    return SUCCESS;
}

/* A queued launch, followed by its parameters, each at a multiple of their alignment. */
struct work {
    const struct symbol *function;
    unsigned grid[3], block[3], shared;
};

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static void run_launch(const void *data) {
    struct work work;
    memcpy(&work, data, sizeof work);
    const struct kernel *kernel = work.function->kernel;
    size_t bytes = 0;
    for (unsigned i = 0; i < kernel->parameters; i++) bytes += aligned(kernel->sizes[i]);
    char *copy = aligned_alloc(ALIGNMENT, bytes + ALIGNMENT), *at = copy;
    void *parameters[MOST_PARAMETERS];
    memcpy(copy, (const char *)data + sizeof work, bytes);
    for (unsigned i = 0; i < kernel->parameters; at += aligned(kernel->sizes[i++])) parameters[i] = at;
    const char *wrong = work.function->module->launch(kernel, work.grid, work.block, work.shared, parameters);
    if (!wrong) wrong = written_outside();
    if (wrong) {
        char text[400];
        snprintf(text, sizeof text, "%.100s: %.280s", work.function->name, wrong);
        fault(text);
    }
    free(copy);
}

/* Queues a launch with what its parameters are now. */
int enqueue_on_host(const struct symbol *function, const unsigned *grid, const unsigned *block, unsigned shared,
                    struct stream *stream, void **parameters, const char *text) {
    const struct kernel *kernel = function->kernel;
    struct work work = {function, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared};
    size_t given = 0, bytes = sizeof work;
    for (unsigned i = 0; i < kernel->parameters; i++) given += kernel->sizes[i], bytes += aligned(kernel->sizes[i]);
    if ((double)grid[0] * grid[1] * grid[2] > MOST_BLOCKS) return INVALID_VALUE;
    if (given > MOST_PARAMETERS || (!parameters && kernel->parameters)) return INVALID_VALUE;
    char *data = calloc(1, bytes), *at = data + sizeof work;
    memcpy(data, &work, sizeof work);
    for (unsigned i = 0; i < kernel->parameters; at += aligned(kernel->sizes[i++]))
        memcpy(at, parameters[i], kernel->sizes[i]);
    int status = standin_enqueue(stream, run_launch, data, bytes, text);
    free(data);
    return status;
}
