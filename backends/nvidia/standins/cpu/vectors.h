/* CUDA's types of several numbers, with its alignments. */

#pragma once

#define BYOC_CPU_VECTORS(type, name, of_two, of_four)                                                                     \
    struct alignas(sizeof(type)) name##1 { type x; };                                                                      \
    struct alignas(of_two) name##2 { type x, y; };                                                                         \
    struct name##3 { type x, y, z; };                                                                                      \
    struct alignas(of_four) name##4 { type x, y, z, w; };                                                                  \
    static inline name##1 make_##name##1(type x) { return {x}; }                                                           \
    static inline name##2 make_##name##2(type x, type y) { return {x, y}; }                                                \
    static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                                     \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

BYOC_CPU_VECTORS(signed char, char, 2, 4)
BYOC_CPU_VECTORS(unsigned char, uchar, 2, 4)
BYOC_CPU_VECTORS(short, short, 4, 8)
BYOC_CPU_VECTORS(unsigned short, ushort, 4, 8)
BYOC_CPU_VECTORS(int, int, 8, 16)
BYOC_CPU_VECTORS(unsigned, uint, 8, 16)
BYOC_CPU_VECTORS(float, float, 8, 16)
BYOC_CPU_VECTORS(long long, longlong, 16, 16)
BYOC_CPU_VECTORS(unsigned long long, ulonglong, 16, 16)
BYOC_CPU_VECTORS(double, double, 16, 16)
