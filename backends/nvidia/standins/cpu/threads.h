/* The threads of a block, as fibers: each has a stack, and runs until it waits or ends.
 *
 * Lanes of a warp run in turn until all that are left wait for the block, and so do the warps. Which comes first changes
 * from one round to the next, so that a barrier that is missing shows in one of them. */

#pragma once

#include <sys/mman.h>

extern "C" int snprintf(char *text, unsigned long size, const char *format, ...);

struct byoc_cpu_index { unsigned x, y, z; };

static byoc_cpu_index threadIdx, blockIdx, blockDim, gridDim;
static const int warpSize = 32;

extern "C" void byoc_cpu_switch(void **from, void *to);

#if defined __x86_64__
/* Registers that a call keeps go onto the stack, whose pointer goes to *from; the same backwards from `to`. */
asm(R"(
.text
.type byoc_cpu_switch, @function
byoc_cpu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
#else
#error "kernels run on x86-64 only"
#endif

namespace byoc_cpu {

typedef unsigned int u32;
typedef unsigned long size_t;

enum : u32 { MOST_THREADS = 1024, LANES = 32 };
enum : size_t { STACK = 256 << 10, PAGE = 4096 };
enum State : u32 { READY, AT_BLOCK, AT_WARP, ENDED };

/* What a lane gives to the others, and has got of all. */
struct Parcel { alignas(16) unsigned char bytes[64]; };

struct Thread {
    void *pointer;     /* the fiber's stack pointer; null before it begins */
    char *stack;
    byoc_cpu_index index;
    State state;
    u32 mask;          /* the lanes that a wait of the warp is for */
};

static Thread threads[MOST_THREADS];
static Parcel given[MOST_THREADS], got[MOST_THREADS];
static char *stacks[MOST_THREADS];
static u32 stacks_free, count, running;
static void *scheduler;
static void (*body)();
static char message[400];
static unsigned char *dynamic_shared;

/* A stack for a fiber, with a page below it that may not be touched. */
static char *take_stack() {
    if (stacks_free) return stacks[--stacks_free];
    void *at = mmap(nullptr, PAGE + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) __builtin_trap();
    mprotect(at, PAGE, PROT_NONE);
    return (char *)at + PAGE;
}

static void give_stack(char *stack) { stacks[stacks_free++] = stack; }

/* What a fiber begins with. It never returns: who ends is not switched to again. */
static void begin() {
    body();
    void *ended;
    threads[running].state = ENDED;
    byoc_cpu_switch(&ended, scheduler);
    __builtin_trap();
}

/* Runs a thread until it waits or ends. */
static void resume(u32 number) {
    Thread &thread = threads[number];
    running = number;
    threadIdx = thread.index;
    if (!thread.pointer) {
        thread.stack = take_stack();
        /* Six registers, and where to return to; what is above is a return address of `begin`, which has none. */
        void **top = (void **)(thread.stack + STACK) - 8;
        for (int i = 0; i < 8; i++) top[i] = nullptr;
        top[6] = (void *)begin;
        thread.pointer = top;
    }
    byoc_cpu_switch(&scheduler, thread.pointer);
    if (thread.state == ENDED) give_stack(thread.stack);
}

__attribute__((noinline)) static void wait(State state, u32 mask) {
    Thread &thread = threads[running];
    thread.state = state;
    thread.mask = mask;
    byoc_cpu_switch(&thread.pointer, scheduler);
}

/* Lets those lanes go on of which all that they wait for wait too. Whether there are any. */
static bool meet(u32 first, u32 lanes) {
    bool any = false;
    for (u32 lane = 0; lane < lanes; lane++) {
        Thread &one = threads[first + lane];
        if (one.state != AT_WARP) continue;
        u32 mask = one.mask, there = 0;
        for (u32 other = 0; other < lanes; other++)
            if (threads[first + other].state == AT_WARP && threads[first + other].mask == mask) there |= 1u << other;
        if ((there & mask) != mask) continue;
        for (u32 other = 0; other < lanes; other++)
            if (mask >> other & 1) {
                got[first + other] = given[first + other];
                threads[first + other].state = READY;
            }
        any = true;
    }
    return any;
}

/* Runs the lanes of a warp until each has ended or waits for the block. */
static bool run_warp(u32 first, bool backwards) {
    u32 lanes = count - first < LANES ? count - first : LANES;
    for (;;) {
        for (u32 turn = 0; turn < lanes; turn++) {
            u32 number = first + (backwards ? lanes - 1 - turn : turn);
            if (threads[number].state == READY) resume(number);
        }
        if (meet(first, lanes)) continue;
        for (u32 lane = 0; lane < lanes; lane++)
            if (threads[first + lane].state == AT_WARP) {
                snprintf(message, sizeof message,
                         "lane %u of warp %u of block %u %u %u waits for lanes %08x of its warp, and not all come", lane,
                         first / LANES, blockIdx.x, blockIdx.y, blockIdx.z, threads[first + lane].mask);
                return false;
            }
        return true;
    }
}

/* Runs all threads of a block to their end. */
static bool run_block(bool backwards) {
    for (u32 i = 0; i < count; i++) threads[i].pointer = nullptr, threads[i].state = READY;
    u32 warps = (count + LANES - 1) / LANES;
    for (;; backwards = !backwards) {
        for (u32 turn = 0; turn < warps; turn++)
            if (!run_warp((backwards ? warps - 1 - turn : turn) * LANES, backwards)) return false;
        u32 waiting = 0;
        for (u32 i = 0; i < count; i++) waiting += threads[i].state == AT_BLOCK;
        if (waiting == 0) return true;
        if (waiting != count) {
            snprintf(message, sizeof message, "only %u of %u threads of block %u %u %u reach a barrier", waiting, count,
                     blockIdx.x, blockIdx.y, blockIdx.z);
            return false;
        }
        for (u32 i = 0; i < count; i++) threads[i].state = READY;
    }
}

/* Gives back the stacks of threads that will not go on. */
static void abandon() {
    for (u32 i = 0; i < count; i++)
        if (threads[i].pointer && threads[i].state != ENDED) give_stack(threads[i].stack);
}

} // namespace byoc_cpu

static inline void __syncthreads() { byoc_cpu::wait(byoc_cpu::AT_BLOCK, 0); }
static inline void __syncwarp(unsigned mask = 0xFFFFFFFFu) { byoc_cpu::wait(byoc_cpu::AT_WARP, mask); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
