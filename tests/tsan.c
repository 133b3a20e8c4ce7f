/* The slow paths of the standard library's mutex and lock, for tests/tsan.sh: there they are compiled without ThreadSanitizer, so that
 * it would not see that whoever waited has the lock. The states are those of library/std/src/sys/sync/{mutex,rwlock}/futex.rs. */
#include <sched.h>
#include <stdint.h>

void MUTEX_LOCK(uint32_t *state) {
    while (__atomic_exchange_n(state, 2, __ATOMIC_ACQUIRE) != 0) {
        sched_yield();
    }
}

/* Readers, or all of these bits for a writer; nobody sets the bits above them, which say that somebody sleeps. */
static const uint32_t all = (1u << 30) - 1;

void RWLOCK_READ(uint32_t *state) {
    for (;;) {
        uint32_t found = __atomic_load_n(state, __ATOMIC_RELAXED);
        if (found < all - 1 && __atomic_compare_exchange_n(state, &found, found + 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            return;
        }
        sched_yield();
    }
}

void RWLOCK_WRITE(uint32_t *state) {
    for (;;) {
        uint32_t found = 0;
        if (__atomic_compare_exchange_n(state, &found, all, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            return;
        }
        sched_yield();
    }
}
