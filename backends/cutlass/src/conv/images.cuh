
// Kernels over images in NHWC. Channels are padded to whole packs of 16 bytes, or to 4 for what a convolution alone reads.

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(f16 x) { return to_float(x); }
__device__ __forceinline__ float widen(bf16 x) { return to_float(x); }
template <class T> __device__ __forceinline__ T narrow(float x);
template <> __device__ __forceinline__ float narrow<float>(float x) { return x; }
template <> __device__ __forceinline__ f16 narrow<f16>(float x) { return to_f16(x); }
template <> __device__ __forceinline__ bf16 narrow<bf16>(float x) { return to_bf16(x); }

// The elements of one access of memory.
template <class T, int COUNT> struct alignas(COUNT * sizeof(T)) Pack { T at[COUNT]; };

template <class T> struct Lanes {
  static constexpr int COUNT = 16 / sizeof(T);
  using Packed = Pack<T, COUNT>;
  float at[COUNT];

  __device__ __forceinline__ explicit Lanes(float all) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) at[i] = all;
  }
  __device__ __forceinline__ explicit Lanes(const T *from) {
    Packed packed = *reinterpret_cast<const Packed *>(from);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) at[i] = widen(packed.at[i]);
  }
  __device__ __forceinline__ void store(T *to) const {
    Packed packed;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) packed.at[i] = narrow<T>(at[i]);
    *reinterpret_cast<Packed *>(to) = packed;
  }
};

// The index of this thread, for one item per thread.
__device__ __forceinline__ i64 item() { return i64(blockIdx.x) * blockDim.x + threadIdx.x; }

// [N, C, PIXELS] to [N, PIXELS, PITCH] by tiles of 32 by 32, with zeros after the channels.
template <class T, int C, int PIXELS, int PITCH> __device__ __forceinline__ void to_nhwc(const T *x, T *y) {
  __shared__ T square[32][33];
  constexpr int ACROSS = (PIXELS + 31) / 32;
  const int pixels = int(blockIdx.x % ACROSS) * 32, channels = int(blockIdx.y) * 32, lane = int(threadIdx.x);
  const i64 image = blockIdx.x / ACROSS;
  x += image * C * PIXELS;
  y += image * PIXELS * PITCH;
  for (int row = int(threadIdx.y); row < 32; row += 8) {
    const int c = channels + row, pixel = pixels + lane;
    square[row][lane] = c < C && pixel < PIXELS ? x[i64(c) * PIXELS + pixel] : T{};
  }
  __syncthreads();
  for (int row = int(threadIdx.y); row < 32; row += 8) {
    const int pixel = pixels + row, c = channels + lane;
    if (pixel < PIXELS && c < PITCH) y[i64(pixel) * PITCH + c] = square[lane][row];
  }
}

// The same for few channels: a thread writes those of a pixel at once.
template <class T, int C, int PIXELS, int PITCH>
__device__ __forceinline__ void few_to_nhwc(const T *x, T *y, i64 count) {
  const i64 i = item();
  if (i >= count) return;
  const i64 image = i / PIXELS, pixel = i % PIXELS;
  Pack<T, PITCH> packed;
#pragma unroll
  for (int c = 0; c < PITCH; ++c) packed.at[c] = c < C ? x[(image * C + c) * PIXELS + pixel] : T{};
  reinterpret_cast<Pack<T, PITCH> *>(y)[i] = packed;
}

// [N, PIXELS, PITCH] to [N, C, PIXELS] by tiles of 32 by 32.
template <class T, int C, int PIXELS, int PITCH> __device__ __forceinline__ void to_nchw(const T *x, T *y) {
  __shared__ T square[32][33];
  constexpr int ACROSS = (PIXELS + 31) / 32;
  const int pixels = int(blockIdx.x % ACROSS) * 32, channels = int(blockIdx.y) * 32, lane = int(threadIdx.x);
  const i64 image = blockIdx.x / ACROSS;
  x += image * PIXELS * PITCH;
  y += image * C * PIXELS;
  for (int row = int(threadIdx.y); row < 32; row += 8) {
    const int pixel = pixels + row, c = channels + lane;
    square[row][lane] = c < C && pixel < PIXELS ? x[i64(pixel) * PITCH + c] : T{};
  }
  __syncthreads();
  for (int row = int(threadIdx.y); row < 32; row += 8) {
    const int c = channels + row, pixel = pixels + lane;
    if (c < C && pixel < PIXELS) y[i64(c) * PIXELS + pixel] = square[lane][row];
  }
}

// A window that moves over images.
template <int H_, int W_, int P_, int Q_, int R_, int S_, int STRIDE_H_, int STRIDE_W_, int TOP_, int LEFT_, int DILATION_H_,
          int DILATION_W_>
struct Window {
  static constexpr int H = H_, W = W_, P = P_, Q = Q_, R = R_, S = S_, STRIDE_H = STRIDE_H_, STRIDE_W = STRIDE_W_,
                       TOP = TOP_, LEFT = LEFT_, DILATION_H = DILATION_H_, DILATION_W = DILATION_W_;
};

// The position of a thread, which computes one pack of the result.
template <class T, class Win, int PITCH> struct Position {
  static constexpr int PACKS = PITCH / Lanes<T>::COUNT;
  int c, q, p;
  i64 n;
  __device__ __forceinline__ explicit Position(i64 i)
      : c(int(i % PACKS) * Lanes<T>::COUNT), q(int(i / PACKS % Win::Q)), p(int(i / PACKS / Win::Q % Win::P)),
        n(i / PACKS / Win::Q / Win::P) {}
  __device__ __forceinline__ int row(int r) const { return p * Win::STRIDE_H - Win::TOP + r * Win::DILATION_H; }
  __device__ __forceinline__ int column(int s) const { return q * Win::STRIDE_W - Win::LEFT + s * Win::DILATION_W; }
  __device__ __forceinline__ const T *at(const T *x, int row, int column) const {
    return x + ((n * Win::H + row) * Win::W + column) * PITCH + c;
  }
};

__device__ __forceinline__ bool within(int at, int size) { return at >= 0 && at < size; }

template <class T, class Win, int PITCH> __device__ __forceinline__ void max_pool(const T *x, T *y, i64 count) {
  const i64 i = item();
  if (i >= count) return;
  const Position<T, Win, PITCH> position(i);
  Lanes<T> most(float_of_bits(0xff800000u));
  for (int r = 0; r < Win::R; ++r) {
    if (!within(position.row(r), Win::H)) continue;
#pragma unroll
    for (int s = 0; s < Win::S; ++s) {
      if (!within(position.column(s), Win::W)) continue;
      const Lanes<T> values(position.at(x, position.row(r), position.column(s)));
#pragma unroll
      for (int lane = 0; lane < Lanes<T>::COUNT; ++lane) {
        // A NaN is not less than anything, and nothing replaces it.
        if (!(values.at[lane] <= most.at[lane]) && most.at[lane] == most.at[lane]) most.at[lane] = values.at[lane];
      }
    }
  }
  most.store(y + i * Lanes<T>::COUNT);
}

// BOTTOM and RIGHT are how many pixels of padding count as pixels; with TOP and LEFT of the window, if PADDED.
template <class T, class Win, int PITCH, bool PADDED, int BOTTOM, int RIGHT>
__device__ __forceinline__ void average_pool(const T *x, T *y, i64 count) {
  const i64 i = item();
  if (i >= count) return;
  const Position<T, Win, PITCH> position(i);
  Lanes<T> sum(0.f);
  int pixels = 0;
  for (int r = 0; r < Win::R; ++r) {
#pragma unroll
    for (int s = 0; s < Win::S; ++s) {
      const int row = position.row(r), column = position.column(s);
      const bool inside = within(row, Win::H) && within(column, Win::W);
      pixels += PADDED ? row < Win::H + BOTTOM && column < Win::W + RIGHT : inside;
      if (!inside) continue;
      const Lanes<T> values(position.at(x, row, column));
#pragma unroll
      for (int lane = 0; lane < Lanes<T>::COUNT; ++lane) sum.at[lane] += values.at[lane];
    }
  }
#pragma unroll
  for (int lane = 0; lane < Lanes<T>::COUNT; ++lane) sum.at[lane] /= float(pixels);
  sum.store(y + i * Lanes<T>::COUNT);
}

// The mean of each channel of an image: 8 rows of threads share its pixels, a column takes a pack of channels.
template <class T, int PIXELS, int PITCH> __device__ __forceinline__ void global_average(const T *x, T *y) {
  constexpr int COUNT = Lanes<T>::COUNT, PACKS = PITCH / COUNT, ACROSS = (PACKS + 31) / 32;
  __shared__ float sums[8][32 * COUNT];
  const int lane = int(threadIdx.x), pack = int(blockIdx.x % ACROSS) * 32 + lane;
  const i64 image = blockIdx.x / ACROSS;
  Lanes<T> sum(0.f);
  if (pack < PACKS) {
    for (int pixel = int(threadIdx.y); pixel < PIXELS; pixel += 8) {
      const Lanes<T> values(x + (image * PIXELS + pixel) * PITCH + pack * COUNT);
#pragma unroll
      for (int i = 0; i < COUNT; ++i) sum.at[i] += values.at[i];
    }
  }
#pragma unroll
  for (int i = 0; i < COUNT; ++i) sums[threadIdx.y][i * 32 + lane] = sum.at[i];
  __syncthreads();
  if (threadIdx.y != 0 || pack >= PACKS) return;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    float total = 0.f;
    for (int row = 0; row < 8; ++row) total += sums[row][i * 32 + lane];
    sum.at[i] = total / float(PIXELS);
  }
  sum.store(y + image * PITCH + pack * COUNT);
}

// One function of each element.
template <class T, class F> __device__ __forceinline__ void map_one(const T *x, T *y, i64 count) {
  const i64 i = item();
  if (i >= count) return;
  Lanes<T> values(x + i * Lanes<T>::COUNT);
#pragma unroll
  for (int lane = 0; lane < Lanes<T>::COUNT; ++lane) values.at[lane] = F::of(values.at[lane]);
  values.store(y + i * Lanes<T>::COUNT);
}

// One function of two elements. The second operand has one pixel an image where EACH pixel meets the same one.
template <class T, class F, int PIXELS, int PITCH, bool EACH>
__device__ __forceinline__ void map_two(const T *a, const T *b, T *y, i64 count) {
  constexpr int PACKS = PITCH / Lanes<T>::COUNT;
  const i64 i = item();
  if (i >= count) return;
  const i64 j = EACH ? i / PACKS / PIXELS * PACKS + i % PACKS : i;
  Lanes<T> values(a + i * Lanes<T>::COUNT);
  const Lanes<T> others(b + j * Lanes<T>::COUNT);
#pragma unroll
  for (int lane = 0; lane < Lanes<T>::COUNT; ++lane) values.at[lane] = F::of(values.at[lane], others.at[lane]);
  values.store(y + i * Lanes<T>::COUNT);
}

// Channels of one image to those of another from FIRST on: FROM is the pitch of the one, PITCH that of the other.
template <class T, int FROM, int PITCH, int FIRST> __device__ __forceinline__ void place(const T *x, T *y, i64 count) {
  constexpr int COUNT = Lanes<T>::COUNT, PACKS = FROM / COUNT;
  using Packed = typename Lanes<T>::Packed;
  const i64 i = item();
  if (i >= count) return;
  *reinterpret_cast<Packed *>(y + i / PACKS * PITCH + FIRST + i % PACKS * COUNT) = reinterpret_cast<const Packed *>(x)[i];
}

// A depthwise convolution with filters [R, S, PITCH], followed by their biases.
template <class T, class F, class Win, int PITCH>
__device__ __forceinline__ void depthwise(const T *x, const T *weights, T *y, i64 count) {
  const i64 i = item();
  if (i >= count) return;
  const Position<T, Win, PITCH> position(i);
  Lanes<T> sum(0.f);
  const float *bias = reinterpret_cast<const float *>(weights + Win::R * Win::S * PITCH) + position.c;
#pragma unroll
  for (int lane = 0; lane < Lanes<T>::COUNT; ++lane) sum.at[lane] = bias[lane];
  for (int r = 0; r < Win::R; ++r) {
    if (!within(position.row(r), Win::H)) continue;
#pragma unroll
    for (int s = 0; s < Win::S; ++s) {
      if (!within(position.column(s), Win::W)) continue;
      const Lanes<T> values(position.at(x, position.row(r), position.column(s)));
      const Lanes<T> weight(weights + (r * Win::S + s) * PITCH + position.c);
#pragma unroll
      for (int lane = 0; lane < Lanes<T>::COUNT; ++lane) sum.at[lane] += values.at[lane] * weight.at[lane];
    }
  }
#pragma unroll
  for (int lane = 0; lane < Lanes<T>::COUNT; ++lane) sum.at[lane] = F::of(sum.at[lane]);
  sum.store(y + i * Lanes<T>::COUNT);
}
