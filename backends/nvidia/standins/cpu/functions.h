/* CUDA's functions of one thread. Those of one name and two types are overloads, as in CUDA C++. */

#pragma once

#define BYOC_CPU_ONE(name)                                                                                                 \
    extern "C" double name(double);                                                                                        \
    extern "C" float name##f(float);                                                                                       \
    static inline float name(float x) { return name##f(x); }
#define BYOC_CPU_TWO(name)                                                                                                 \
    extern "C" double name(double, double);                                                                                \
    extern "C" float name##f(float, float);                                                                                \
    static inline float name(float x, float y) { return name##f(x, y); }

BYOC_CPU_ONE(acos) BYOC_CPU_ONE(acosh) BYOC_CPU_ONE(asin) BYOC_CPU_ONE(asinh) BYOC_CPU_ONE(atan) BYOC_CPU_ONE(atanh)
BYOC_CPU_ONE(cbrt) BYOC_CPU_ONE(ceil) BYOC_CPU_ONE(cos) BYOC_CPU_ONE(cosh) BYOC_CPU_ONE(erf) BYOC_CPU_ONE(erfc)
BYOC_CPU_ONE(exp) BYOC_CPU_ONE(exp2) BYOC_CPU_ONE(exp10) BYOC_CPU_ONE(expm1) BYOC_CPU_ONE(fabs) BYOC_CPU_ONE(floor)
BYOC_CPU_ONE(log) BYOC_CPU_ONE(log10) BYOC_CPU_ONE(log1p) BYOC_CPU_ONE(log2) BYOC_CPU_ONE(nearbyint) BYOC_CPU_ONE(rint)
BYOC_CPU_ONE(round) BYOC_CPU_ONE(sin) BYOC_CPU_ONE(sinh) BYOC_CPU_ONE(sqrt) BYOC_CPU_ONE(tan) BYOC_CPU_ONE(tanh)
BYOC_CPU_ONE(tgamma) BYOC_CPU_ONE(lgamma) BYOC_CPU_ONE(trunc)
BYOC_CPU_TWO(atan2) BYOC_CPU_TWO(copysign) BYOC_CPU_TWO(fdim) BYOC_CPU_TWO(fmax) BYOC_CPU_TWO(fmin) BYOC_CPU_TWO(fmod)
BYOC_CPU_TWO(hypot) BYOC_CPU_TWO(pow) BYOC_CPU_TWO(remainder)
extern "C" double fma(double, double, double);
extern "C" float fmaf(float, float, float);
static inline float fma(float x, float y, float z) { return fmaf(x, y, z); }

static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rsqrtf(float x) { return float(1.0 / sqrt(double(x))); }
static inline float rsqrt(float x) { return rsqrtf(x); }
static inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
static inline float normcdff(float x) { return float(0.5 * erfc(-double(x) * 0.70710678118654752440)); }

/* What the device computes in fewer bits is exact here. */
static inline float __expf(float x) { return expf(x); }
static inline float __exp10f(float x) { return exp10f(x); }
static inline float __logf(float x) { return logf(x); }
static inline float __log2f(float x) { return log2f(x); }
static inline float __log10f(float x) { return log10f(x); }
static inline float __sinf(float x) { return sinf(x); }
static inline float __cosf(float x) { return cosf(x); }
static inline float __tanf(float x) { return tanf(x); }
static inline float __powf(float x, float y) { return powf(x, y); }
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __frsqrt_rn(float x) { return rsqrtf(x); }
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fsub_rn(float x, float y) { return x - y; }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static inline double __dadd_rn(double x, double y) { return x + y; }
static inline double __dmul_rn(double x, double y) { return x * y; }
static inline double __ddiv_rn(double x, double y) { return x / y; }
static inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

#define BYOC_CPU_ORDER(type)                                                                                               \
    static inline type min(type x, type y) { return y < x ? y : x; }                                                       \
    static inline type max(type x, type y) { return x < y ? y : x; }
BYOC_CPU_ORDER(int) BYOC_CPU_ORDER(unsigned) BYOC_CPU_ORDER(long) BYOC_CPU_ORDER(unsigned long)
BYOC_CPU_ORDER(long long) BYOC_CPU_ORDER(unsigned long long)
static inline unsigned min(int x, unsigned y) { return min(unsigned(x), y); }
static inline unsigned min(unsigned x, int y) { return min(x, unsigned(y)); }
static inline unsigned max(int x, unsigned y) { return max(unsigned(x), y); }
static inline unsigned max(unsigned x, int y) { return max(x, unsigned(y)); }
static inline float min(float x, float y) { return fminf(x, y); }
static inline float max(float x, float y) { return fmaxf(x, y); }
static inline double min(double x, double y) { return fmin(x, y); }
static inline double max(double x, double y) { return fmax(x, y); }
static inline int abs(int x) { return __builtin_abs(x); }
static inline long abs(long x) { return __builtin_labs(x); }
static inline long long abs(long long x) { return __builtin_llabs(x); }
static inline long long llabs(long long x) { return __builtin_llabs(x); }
static inline float abs(float x) { return fabsf(x); }
static inline double abs(double x) { return fabs(x); }
template <class T> static inline bool isnan(T x) { return __builtin_isnan(x); }
template <class T> static inline bool isinf(T x) { return __builtin_isinf(x); }
template <class T> static inline bool isfinite(T x) { return __builtin_isfinite(x); }
template <class T> static inline bool signbit(T x) { return __builtin_signbit(x); }

template <class To, class From> static inline To byoc_cpu_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "bits are kept");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
static inline float __uint_as_float(unsigned x) { return byoc_cpu_bits<float>(x); }
static inline float __int_as_float(int x) { return byoc_cpu_bits<float>(x); }
static inline unsigned __float_as_uint(float x) { return byoc_cpu_bits<unsigned>(x); }
static inline int __float_as_int(float x) { return byoc_cpu_bits<int>(x); }
static inline double __longlong_as_double(long long x) { return byoc_cpu_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return byoc_cpu_bits<long long>(x); }

/* Conversions saturate on the device, and make 0 of NaN. */
template <class To> static inline To byoc_cpu_saturate(double x) {
    const bool is_signed = To(-1) < To(0);
    const double top = double(1ull << (8 * sizeof(To) - 1)) * (is_signed ? 1 : 2), bottom = is_signed ? -top : 0;
    if (x != x) return 0;
    if (x < bottom) return is_signed ? To(1ull << (8 * sizeof(To) - 1)) : To(0);
    if (x >= top) return is_signed ? To(~(1ull << (8 * sizeof(To) - 1))) : To(~To(0));
    return To(x);
}
static inline int __float2int_rn(float x) { return byoc_cpu_saturate<int>(nearbyint(double(x))); }
static inline int __float2int_rz(float x) { return byoc_cpu_saturate<int>(trunc(double(x))); }
static inline int __float2int_rd(float x) { return byoc_cpu_saturate<int>(floor(double(x))); }
static inline int __float2int_ru(float x) { return byoc_cpu_saturate<int>(ceil(double(x))); }
static inline long long __float2ll_rn(float x) { return byoc_cpu_saturate<long long>(nearbyint(double(x))); }
static inline long long __float2ll_rz(float x) { return byoc_cpu_saturate<long long>(trunc(double(x))); }
static inline int __double2int_rn(double x) { return byoc_cpu_saturate<int>(nearbyint(x)); }
static inline long long __double2ll_rz(double x) { return byoc_cpu_saturate<long long>(trunc(x)); }
static inline float __int2float_rn(int x) { return float(x); }

static inline unsigned __umulhi(unsigned x, unsigned y) { return unsigned((unsigned long long)x * y >> 32); }
static inline int __mulhi(int x, int y) { return int((long long)x * y >> 32); }
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }

template <class T> static inline T __ldg(const T *at) { return *at; }
template <class T> static inline T __ldcs(const T *at) { return *at; }
template <class T> static inline T __ldcg(const T *at) { return *at; }
template <class T> static inline T __ldca(const T *at) { return *at; }
template <class T> static inline void __stcs(T *at, T value) { *at = value; }
template <class T> static inline void __stcg(T *at, T value) { *at = value; }

/* No two fibers run at once. */
template <class T, class F> static inline T byoc_cpu_atomic(T *at, F of) {
    T old = *at;
    *at = of(old);
    return old;
}
#define BYOC_CPU_ATOMIC(name, type, expression)                                                                            \
    static inline type name(type *at, type value) {                                                                        \
        return byoc_cpu_atomic(at, [=](type old) -> type { return expression; });                                          \
    }
#define BYOC_CPU_ATOMICS(type)                                                                                             \
    BYOC_CPU_ATOMIC(atomicAdd, type, old + value)                                                                          \
    BYOC_CPU_ATOMIC(atomicMin, type, value < old ? value : old)                                                            \
    BYOC_CPU_ATOMIC(atomicMax, type, old < value ? value : old)                                                            \
    BYOC_CPU_ATOMIC(atomicAnd, type, old & value)                                                                          \
    BYOC_CPU_ATOMIC(atomicOr, type, old | value)                                                                           \
    BYOC_CPU_ATOMIC(atomicXor, type, old ^ value)                                                                          \
    BYOC_CPU_ATOMIC(atomicExch, type, value)                                                                               \
    static inline type atomicCAS(type *at, type is, type value) {                                                          \
        return byoc_cpu_atomic(at, [=](type old) -> type { return old == is ? value : old; });                             \
    }
BYOC_CPU_ATOMICS(int) BYOC_CPU_ATOMICS(unsigned) BYOC_CPU_ATOMICS(unsigned long long)
BYOC_CPU_ATOMIC(atomicSub, int, old - value)
BYOC_CPU_ATOMIC(atomicSub, unsigned, old - value)
BYOC_CPU_ATOMIC(atomicAdd, float, old + value)
BYOC_CPU_ATOMIC(atomicAdd, double, old + value)
BYOC_CPU_ATOMIC(atomicExch, float, value)
BYOC_CPU_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)

/* Types of 16 bits, for the prelude. */

/* The binary16 number that is nearest, ties to even; a NaN becomes the one that the device makes. */
static inline unsigned short byoc_cpu_f16_bits(double x) {
    unsigned long long bits = byoc_cpu_bits<unsigned long long>(x);
    unsigned sign = unsigned(bits >> 48) & 0x8000u;
    double size = fabs(x);
    if (x != x) return 0x7FFF;
    if (size >= 65520.0) return (unsigned short)(sign | 0x7C00u);
    /* The distance between numbers of 11 bits at this size; subnormal ones are 2^-24 apart. */
    int exponent = int(bits >> 52 & 0x7FF) - 1023;
    if (exponent < -14) exponent = -14;
    double units = nearbyint(size * byoc_cpu_bits<double>((unsigned long long)(1023 + 10 - exponent) << 52));
    /* One more than the largest of an exponent is the smallest of the next, in bits too. */
    return (unsigned short)(sign | (unsigned(units) + (unsigned(exponent + 14) << 10)));
}

static inline float byoc_cpu_f16_value(unsigned short bits) {
    unsigned sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3FFu;
    if (exponent == 31) return __uint_as_float(sign | 0x7F800000u | fraction << 13);
    if (exponent == 0) return (sign ? -1.0f : 1.0f) * float(fraction) * __uint_as_float(103u << 23);
    return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
}

static inline unsigned short byoc_cpu_bf16_bits(float x) {
    unsigned bits = __float_as_uint(x);
    if (x != x) return 0x7FFF;
    return (unsigned short)((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}
