/* Warp-level operations. */

#pragma once

static inline unsigned byoc_cpu_lane() { return byoc_cpu::running % byoc_cpu::LANES; }

/* Gives a value to the other lanes, and waits for theirs. */
template <class T> static inline void byoc_cpu_give(unsigned mask, const T &value) {
    static_assert(sizeof(T) <= sizeof(byoc_cpu::Parcel), "it fits into a parcel");
    __builtin_memcpy(byoc_cpu::given[byoc_cpu::running].bytes, &value, sizeof value);
    byoc_cpu::wait(byoc_cpu::AT_WARP, mask);
}

/* What a lane gave. */
template <class T> static inline T byoc_cpu_of(unsigned lane) {
    T value;
    unsigned first = byoc_cpu::running / byoc_cpu::LANES * byoc_cpu::LANES;
    __builtin_memcpy(&value, byoc_cpu::got[first + lane].bytes, sizeof value);
    return value;
}

/* Lanes are numbered within groups of `width`; from a lane outside of its group a lane gets its own value. */
template <class T> static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    byoc_cpu_give(mask, value);
    return byoc_cpu_of<T>(byoc_cpu_lane() / width * width + unsigned(source) % width);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int other, int width = 32) {
    unsigned lane = byoc_cpu_lane(), source = lane ^ other;
    byoc_cpu_give(mask, value);
    return byoc_cpu_of<T>(source / width > lane / width ? lane : source);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
    unsigned lane = byoc_cpu_lane();
    byoc_cpu_give(mask, value);
    return byoc_cpu_of<T>(lane % width < by ? lane : lane - by);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
    unsigned lane = byoc_cpu_lane();
    byoc_cpu_give(mask, value);
    return byoc_cpu_of<T>(lane % width + by >= unsigned(width) ? lane : lane + by);
}
static inline unsigned __ballot_sync(unsigned mask, int said) {
    unsigned all = 0;
    byoc_cpu_give(mask, said != 0);
    for (unsigned lane = 0; lane < byoc_cpu::LANES; lane++)
        if (mask >> lane & 1 && byoc_cpu_of<bool>(lane)) all |= 1u << lane;
    return all;
}
static inline int __any_sync(unsigned mask, int said) { return __ballot_sync(mask, said) != 0; }
static inline int __all_sync(unsigned mask, int said) { return __ballot_sync(mask, said) == mask; }

struct byoc_cpu_fragments { unsigned a[4], b[2]; };

/* d = a x b + d for the whole warp, with the fragments of mma.m16n8k16 in PTX: `a` is 16 x 16, `b` 16 x 8, `d` 16 x 8.
 * The sum of each element is exact to a double, and is rounded once. */
static inline void byoc_cpu_mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                float (*value)(unsigned short)) {
    unsigned lane = byoc_cpu_lane(), group = lane / 4, pair = lane % 4;
    byoc_cpu_fragments own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    byoc_cpu_give(0xFFFFFFFFu, own);
    double sums[4] = {d[0], d[1], d[2], d[3]};
    for (unsigned k = 0; k < 16; k++) {
        /* Registers hold two neighbours along k; the second half of k is in later registers. */
        unsigned holder = k % 8 / 2, half = k / 8, shift = k % 2 * 16;
        byoc_cpu_fragments rows = byoc_cpu_of<byoc_cpu_fragments>(group * 4 + holder);
        float upper = value((unsigned short)(rows.a[2 * half] >> shift));
        float lower = value((unsigned short)(rows.a[2 * half + 1] >> shift));
        for (unsigned i = 0; i < 2; i++) {
            byoc_cpu_fragments column = byoc_cpu_of<byoc_cpu_fragments>((pair * 2 + i) * 4 + holder);
            float right = value((unsigned short)(column.b[half] >> shift));
            sums[i] += double(upper) * right;
            sums[2 + i] += double(lower) * right;
        }
    }
    for (int i = 0; i < 4; i++) d[i] = float(sums[i]);
}
