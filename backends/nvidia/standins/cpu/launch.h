/* How a kernel is launched from outside: by a table for each, and one function. */

#pragma once

#include <pthread.h>

/* A kernel as the loader sees it. libcuda/modules.c and src/cpu.rs have the same structure. */
struct byoc_cpu_kernel {
    void (*call)(void *const *parameters);
    unsigned parameters;
    const unsigned *sizes; /* bytes of each parameter */
};

extern "C" __attribute__((visibility("hidden"))) char byoc_cpu_shared_begin[], byoc_cpu_shared_end[];

namespace byoc_cpu {

enum : size_t { BEHIND = 1024 };
enum : unsigned char { NAN_BYTE = 0xFF, RED = 0xA5 };

static void (*call)(void *const *);
static void *const *arguments;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void run_thread() { call(arguments); }

static bool run_grid(size_t shared) {
    for (unsigned z = 0; z < gridDim.z; z++)
        for (unsigned y = 0; y < gridDim.y; y++)
            for (unsigned x = 0; x < gridDim.x; x++) {
                blockIdx = {x, y, z};
                __builtin_memset(byoc_cpu_shared_begin, NAN_BYTE, byoc_cpu_shared_end - byoc_cpu_shared_begin);
                __builtin_memset(dynamic_shared, NAN_BYTE, shared);
                if (!run_block((x + y + z) % 2 == 0)) return false;
                for (size_t i = 0; i < BEHIND; i++)
                    if (dynamic_shared[shared + i] != RED) {
                        snprintf(message, sizeof message, "block %u %u %u writes behind its %lu bytes of dynamic shared memory",
                                 x, y, z, shared);
                        return false;
                    }
            }
    return true;
}

template <class T, T...> struct Numbers {};
template <class... P, int... I>
static inline void unpack(void (*kernel)(P...), void *const *parameters, Numbers<int, I...>) {
    kernel(*(P *)parameters[I]...);
}
template <class... P> static inline void unpack(void (*kernel)(P...), void *const *parameters) {
    unpack(kernel, parameters, Numbers<int, __integer_pack(int(sizeof...(P)))...>());
}
template <class... P> constexpr unsigned count_of(void (*)(P...)) { return sizeof...(P); }
template <class... P> struct Sizes { static constexpr unsigned values[] = {unsigned(sizeof(P))..., 0}; };
template <class... P> constexpr const unsigned *sizes_of(void (*)(P...)) { return Sizes<P...>::values; }

} // namespace byoc_cpu

/* Runs a whole launch. Null, or what went wrong, until the next launch. */
extern "C" const char *byoc_cpu_launch(const byoc_cpu_kernel *kernel, const unsigned *grid, const unsigned *block,
                                       unsigned long shared, void *const *parameters) {
    using namespace byoc_cpu;
    pthread_mutex_lock(&lock);
    message[0] = 0;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    count = block[0] * block[1] * block[2];
    for (u32 i = 0; i < count && i < MOST_THREADS; i++)
        threads[i].index = {i % block[0], i / block[0] % block[1], i / block[0] / block[1]};
    size_t bytes = shared + BEHIND;
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (count > MOST_THREADS || memory == MAP_FAILED) {
        snprintf(message, sizeof message, "no room for %u threads and %lu bytes of shared memory", count, shared);
    } else {
        dynamic_shared = (unsigned char *)memory;
        __builtin_memset(dynamic_shared + shared, RED, BEHIND);
        call = kernel->call;
        arguments = parameters;
        body = run_thread;
        if (!run_grid(shared)) abandon();
        munmap(memory, bytes);
    }
    pthread_mutex_unlock(&lock);
    return message[0] ? message : nullptr;
}

#define BYOC_KERNEL(name)                                                                                                  \
    static void byoc_cpu_call_##name(void *const *parameters) { byoc_cpu::unpack(name, parameters); }                      \
    extern "C" const byoc_cpu_kernel byoc_cpu_kernel_##name = {byoc_cpu_call_##name, byoc_cpu::count_of(name),             \
                                                               byoc_cpu::sizes_of(name)};
