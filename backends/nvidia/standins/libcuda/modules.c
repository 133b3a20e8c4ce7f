/* Modules and launches of kernels. */

#include "standin.h"

#include <elf.h>

/* Takes the functions and the initialised variables out of a cubin's symbol table. */
int cuModuleLoadData(struct module **module, const void *image) {
    const Elf64_Ehdr *file = image;
    READY_OUTSIDE_CAPTURE("module load");
    if (memcmp(file->e_ident, ELFMAG, SELFMAG) || file->e_ident[EI_CLASS] != ELFCLASS64 || file->e_machine != EM_OF_CUDA)
        return INVALID_IMAGE;
    const char *bytes = image;
    const Elf64_Shdr *sections = (const void *)(bytes + file->e_shoff);
    *module = calloc(1, sizeof **module);
    if (is_host_object(image)) {
        int status = open_on_host(*module, image);
        if (status) free(*module);
        else standin_log("load module");
        return status;
    }
    for (int s = 0; s < file->e_shnum; s++) {
        if (sections[s].sh_type != SHT_SYMTAB) continue;
        const char *names = bytes + sections[sections[s].sh_link].sh_offset;
        const Elf64_Sym *symbols = (const void *)(bytes + sections[s].sh_offset);
        for (size_t i = 0; i < sections[s].sh_size / sizeof *symbols; i++) {
            int kind = ELF64_ST_TYPE(symbols[i].st_info);
            if ((kind != STT_FUNC && kind != STT_OBJECT) || symbols[i].st_shndx >= file->e_shnum) continue;
            struct symbol *new = calloc(1, sizeof *new);
            *new = (struct symbol){strdup(names + symbols[i].st_name), kind, 0, symbols[i].st_size, SHARED, NULL, *module,
                                   (*module)->symbols};
            (*module)->symbols = new;
            if (kind == STT_FUNC || new->bytes == 0) continue;
            const Elf64_Shdr *home = &sections[symbols[i].st_shndx];
            if (allocate((void **)&new->device, new->bytes, 0)) return OUT_OF_MEMORY;
            if (home->sh_type == SHT_NOBITS) memset((void *)new->device, 0, new->bytes);
            else memcpy((void *)new->device, bytes + home->sh_offset + symbols[i].st_value, new->bytes);
        }
    }
    standin_log("load module");
    return SUCCESS;
}

int cuModuleUnload(struct module *module) {
    READY_OUTSIDE_CAPTURE("module unload");
    for (struct symbol *symbol = module->symbols, *next; symbol; symbol = next) {
        next = symbol->next;
        if (symbol->device) release((void *)symbol->device, 0);
        free(symbol->name);
        free(symbol);
    }
    close_on_host(module);
    free(module);
    standin_log("unload module");
    return SUCCESS;
}

static struct symbol *find(struct module *module, const char *name, int kind) {
    struct symbol *symbol = module->symbols;
    while (symbol && (symbol->kind != kind || strcmp(symbol->name, name))) symbol = symbol->next;
    return symbol;
}

int cuModuleGetFunction(struct symbol **function, struct module *module, const char *name) {
    READY();
    *function = find(module, name, STT_FUNC);
    return *function ? SUCCESS : NOT_FOUND;
}

int cuModuleGetGlobal_v2(uint64_t *pointer, size_t *bytes, struct module *module, const char *name) {
    READY();
    struct symbol *symbol = find(module, name, STT_OBJECT);
    if (!symbol) return NOT_FOUND;
    if (pointer) *pointer = symbol->device;
    if (bytes) *bytes = symbol->bytes;
    return SUCCESS;
}

/* The encoding of such a map is opaque: here its arguments, in an order that tests can recognise. */
struct tensor_map {
    char name[4];
    unsigned char type, rank, swizzle, unused;
    uint64_t address;
    uint32_t sizes[5];
    uint16_t box[5];
    uint64_t strides[4];
};

/* CUDA's types of elements, 0 to 12, in bytes. */
static const unsigned BYTES[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

/* The conditions that CUDA's manual has for maps that are not interleaved. */
int cuTensorMapEncodeTiled(void *map, unsigned type, unsigned rank, void *address, const uint64_t *sizes,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *steps, unsigned interleave,
                           unsigned swizzle, unsigned promotion, unsigned fill) {
    READY();
    if (!map || (uintptr_t)map % 64 || type > 12 || rank < 1 || rank > 5 || (uintptr_t)address % 16) return INVALID_VALUE;
    if (interleave || swizzle > 3 || promotion > 3 || fill > 1) return INVALID_VALUE;
    struct tensor_map made = {"tmap", type, rank, swizzle, 0, (uint64_t)address, {0}, {0}, {0}};
    uint64_t extent = BYTES[type] * sizes[0], span = (uint64_t)box[0] * BYTES[type];
    if (span % 16 || (swizzle && span > 16u << swizzle)) return INVALID_VALUE;
    for (unsigned i = 0; i < rank; i++) {
        if (sizes[i] < 1 || sizes[i] > 1ull << 32 || box[i] < 1 || box[i] > 256 || steps[i] < 1 || steps[i] > 8)
            return INVALID_VALUE;
        made.sizes[i] = sizes[i], made.box[i] = box[i];
        if (i == 0) continue;
        if (strides[i - 1] % 16 || strides[i - 1] >= 1ull << 40) return INVALID_VALUE;
        made.strides[i - 1] = strides[i - 1];
        extent += (sizes[i] - 1) * strides[i - 1];
    }
    if (!standin_is_device_memory(address, extent)) return INVALID_VALUE;
    memset(map, 0, 128);
    memcpy(map, &made, sizeof made);
    standin_log("tensor map of type %u, rank %u, swizzle %u", type, rank, swizzle);
    return SUCCESS;
}

_Static_assert(sizeof(struct tensor_map) <= 128, "it fits into a CUtensorMap");

/* Attribute 8 is the most dynamic shared memory. */
int cuFuncSetAttribute(struct symbol *function, int attribute, int value) {
    READY();
    if (attribute != 8 || value < 0 || value > MOST_SHARED) return INVALID_VALUE;
    function->shared = value;
    return SUCCESS;
}

int cuFuncGetAttribute(int *value, int attribute, struct symbol *function) {
    READY();
    if (attribute != 8) return INVALID_VALUE;
    *value = function->shared;
    return SUCCESS;
}

// CUlaunchConfig and CUlaunchAttribute.
struct attribute {
    unsigned id;
    char pad[4];
    union {
        char bytes[64];
        int allowed;
    } value;
};
struct config {
    unsigned grid[3], block[3], shared;
    struct stream *stream;
    struct attribute *attributes;
    unsigned count;
};

// The only attribute that is known: programmatic dependent launch.
#define PROGRAMMATIC_STREAM_SERIALIZATION 6

int cuLaunchKernelEx(const struct config *config, struct symbol *function, void **parameters, void **extra) {
    char text[256];
    const unsigned *grid = config->grid, *block = config->block;
    (void)extra;
    READY();
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    int has_grid = grid[0] && grid[1] && grid[2] && grid[0] <= 0x7FFFFFFF && grid[1] <= 65535 && grid[2] <= 65535;
    int has_block = threads && threads <= MOST_THREADS && block[2] <= 64;
    int overlaps = 0, known = 1;
    for (unsigned i = 0; i < config->count; i++) {
        known &= config->attributes[i].id == PROGRAMMATIC_STREAM_SERIALIZATION;
        overlaps |= config->attributes[i].value.allowed;
    }
    if (!function || !has_grid || !has_block || !known || config->shared > (unsigned)function->shared) {
        standin_log("refused launch");
        return INVALID_VALUE;
    }
    snprintf(text, sizeof text, "launch %.100s grid %u %u %u block %u %u %u shared %u%s", function->name, grid[0], grid[1],
             grid[2], block[0], block[1], block[2], config->shared, overlaps ? " overlapping" : "");
    if (function->kernel)
        return enqueue_on_host(function, grid, block, config->shared, config->stream, parameters, text);
    return standin_enqueue(config->stream, NULL, NULL, 0, text);
}
