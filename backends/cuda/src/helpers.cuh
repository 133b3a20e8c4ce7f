// Helpers of fused kernels. Indices out of range are clamped; integers wrap and never trap.

// Contiguous elements that are loaded and stored at once.
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack { T at[N]; };
template <int N, class T> __device__ __forceinline__ Pack<T, N> load(const T *from) {
  return *reinterpret_cast<const Pack<T, N> *>(from);
}
template <class T, int N> __device__ __forceinline__ void store(T *to, const Pack<T, N> &from) {
  *reinterpret_cast<Pack<T, N> *>(to) = from;
}

// NaN if either is.
template <class T> __device__ __forceinline__ T larger(T a, T b) { return a != a || a >= b ? a : b; }
template <class T> __device__ __forceinline__ T smaller(T a, T b) { return a != a || a <= b ? a : b; }

template <class T> __device__ __forceinline__ T add(T a, T b) { return T(u64(a) + u64(b)); }
template <class T> __device__ __forceinline__ T subtract(T a, T b) { return T(u64(a) - u64(b)); }
template <class T> __device__ __forceinline__ T multiply(T a, T b) { return T(u64(a) * u64(b)); }
template <class T> __device__ __forceinline__ T divide(T a, T b) {
  if (b == T(0)) return T(0);
  return T(-1) < T(0) && b == T(-1) ? T(u64(0) - u64(a)) : T(a / b);
}
// With the sign of the dividend.
template <class T> __device__ __forceinline__ T rest(T a, T b) {
  return b == T(0) || (T(-1) < T(0) && b == T(-1)) ? T(0) : T(a % b);
}
__device__ __forceinline__ float rest(float a, float b) { return fmodf(a, b); }
__device__ __forceinline__ double rest(double a, double b) { return fmod(a, b); }
// With the sign of the divisor.
template <class T> __device__ __forceinline__ T modulo(T a, T b) {
  const T r = rest(a, b);
  return r != T(0) && (r < T(0)) != (b < T(0)) ? T(r + b) : r;
}
template <class T> __device__ __forceinline__ T absolute(T a) { return a < T(0) ? T(u64(0) - u64(a)) : a; }
__device__ __forceinline__ float absolute(float a) { return fabsf(a); }
__device__ __forceinline__ double absolute(double a) { return fabs(a); }

__device__ __forceinline__ float power(float a, float b) {
  return b == 2.0f ? a * a : b == 3.0f ? a * a * a : powf(a, b);
}
__device__ __forceinline__ double power(double a, double b) { return b == 2.0 ? a * a : pow(a, b); }
__device__ __forceinline__ i64 power(i64 a, i64 b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : a == 0 ? i64(~u64(0) >> 1) : 0;
  u64 result = 1, base = u64(a);
  for (; b > 0; b /= 2, base *= base) result = b % 2 == 1 ? result * base : result;
  return i64(result);
}

__device__ __forceinline__ float sigmoid(float x) {
  const float e = expf(-fabsf(x));
  return x >= 0.0f ? 1.0f / (1.0f + e) : e / (1.0f + e);
}
__device__ __forceinline__ double sigmoid(double x) {
  const double e = exp(-fabs(x));
  return x >= 0.0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
}
__device__ __forceinline__ float softplus(float x) { return (x > 0.0f ? x : 0.0f) + log1pf(expf(-fabsf(x))); }
__device__ __forceinline__ double softplus(double x) { return (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x))); }

// Truncates and saturates; 0 for NaN.
template <class T> __device__ __forceinline__ T truncated(double x) {
  constexpr int bits = sizeof(T) * 8 - (T(-1) < T(0) ? 1 : 0);
  constexpr T most = T(~u64(0) >> (64 - bits));
  constexpr T least = T(-1) < T(0) ? T(-most - 1) : T(0);
  if (x != x) return T(0);
  if (x <= double(least)) return least;
  return x >= double(most) ? most : T(x);
}

// An index that may be negative; 0 if the axis is empty.
template <class T> __device__ __forceinline__ T within(i64 index, T size) {
  const i64 i = index < 0 ? index + i64(size) : index;
  const i64 at = i >= i64(size) ? i64(size) - 1 : i;
  return T(at < 0 ? 0 : at);
}
// An index reflected at the edges.
// The period has one bit more than the size.
template <class U, class T> __device__ __forceinline__ T mirrored_by(T index, T size) {
  if (size == T(1)) return T(0);
  const U period = U(2) * U(size - T(1)), rest = (index < T(0) ? U(0) - U(index) : U(index)) % period;
  const U phase = index < T(0) && rest > U(0) ? period - rest : rest;
  return T(phase < period - phase ? phase : period - phase);
}
__device__ __forceinline__ int mirrored(int index, int size) { return mirrored_by<u32>(index, size); }
__device__ __forceinline__ i64 mirrored(i64 index, i64 size) { return mirrored_by<u64>(index, size); }
template <class T> __device__ __forceinline__ T clamped(T index, T size) {
  return index < T(0) ? T(0) : index >= size ? size - T(1) : index;
}

// The greatest element so far and where it is.
template <class T> struct Best { T value; i64 at; };
template <bool LAST, class T> __device__ __forceinline__ Best<T> better(Best<T> a, Best<T> b) {
  if (b.at < 0) return a;
  if (a.at < 0) return b;
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  const bool equal = (a_nan && b_nan) || a.value == b.value;
  if (equal) return (a.at < b.at) != LAST ? a : b;
  return a_nan || (!b_nan && a.value > b.value) ? a : b;
}
template <class T> __device__ __forceinline__ Best<T> exchange(Best<T> x, int mask) {
  return Best<T>{exchange(x.value, mask), exchange(x.at, mask)};
}

struct Sum { template <class T> static __device__ __forceinline__ T of(T a, T b) { return a + b; } };
struct Max { template <class T> static __device__ __forceinline__ T of(T a, T b) { return larger(a, b); } };
template <bool LAST> struct ArgMax {
  template <class T> static __device__ __forceinline__ T of(T a, T b) { return better<LAST>(a, b); }
};

// Reduces over LANES neighbouring lanes of a warp.
template <class F, int LANES, class T> __device__ __forceinline__ T of_lanes(T x) {
#pragma unroll
  for (int mask = LANES / 2; mask > 0; mask /= 2) x = F::of(x, exchange(x, mask));
  return x;
}
// Reduces over all THREADS of a block.
template <class F, int THREADS, class T> __device__ __forceinline__ T of_block(T x) {
  __shared__ T parts[THREADS / 32];
  x = of_lanes<F, 32>(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = parts[0];
#pragma unroll
  for (int part = 1; part < THREADS / 32; ++part) x = F::of(x, parts[part]);
  return x;
}
