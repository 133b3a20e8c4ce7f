// The copies of a kernel of `hopper.cuh` as TMA does them, against what `wgmma` reads by the descriptors that CuTe makes of the
// kernel's layouts.

// What lies at a place of an operand. Two places have the same with a probability of 1 in 65536.
static uint16_t element(int row, int k) {
  uint32_t x = uint32_t(row) * 2048 + k;
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return uint16_t(x ^ x >> 16);
}

// Where a byte lies with a swizzle of 128 bytes: the number of its 16 bytes among the 8 of a line is changed by the number of
// the line among 8 (PTX ISA, swizzling modes of tensor copies and of matrix descriptors: they are the same).
static unsigned swizzled(unsigned at) { return at ^ (at >> 7 & 7) << 4; }

// The box of a tensor map: elements of the two inner dimensions that a copy brings.
struct Box {
  unsigned inner, outer;

  // Copies the box at (a, b) of a matrix, line by line.
  template <class Matrix>
  void copy(void *to, int a, int b, Matrix matrix) const {
    unsigned const start = __cvta_generic_to_shared(to);
    for (unsigned j = 0; j < outer; ++j)
      for (unsigned i = 0; i < inner; ++i)
        *(uint16_t *)(shared_memory + swizzled(start + (j * inner + i) * 2)) = matrix(a + i, b + j);
  }
};

// What `wgmma` reads as an element of a tile of rows x 16 of K, contiguous along K or along rows (PTX ISA, matrix descriptor
// and canonical layouts). Strides and addresses in a descriptor are in units of 16 bytes.
static uint16_t read(uint64_t descriptor, bool along_k, int row, int k) {
  auto const field = [&](int bit) { return unsigned(descriptor >> bit & 0x3fff) << 4; };
  unsigned const start = field(0), leading = field(16), stride = field(32);
  unsigned const at = along_k ? row / 8 * stride + row % 8 * 128 + k * 2
                              : row / 64 * leading + k / 8 * stride + k % 8 * 128 + row % 64 * 2;
  return *(uint16_t *)(shared_memory + swizzled(start + at));
}

// How many elements a kernel would multiply that are not those of its tile: all stages, filled once, of a tile in the middle of
// both matrices. -1 where the kernel counts its steps otherwise, -2 where it has other instructions for a step.
template <class Element, class Atom, int Groups, bool PingPong, int Splits, int M, int N, int Stages, bool ByRows, class V,
          class Activation, bool Source>
int wrong(Hopper<Element, Atom, Groups, PingPong, Splits, M, N, Stages, ByRows, V, Activation, Source> *, Box box_x, Box box_w) {
  using namespace cute;
  using Kernel = Hopper<Element, Atom, Groups, PingPong, Splits, M, N, Stages, ByRows, V, Activation, Source>;
  int const m0 = 3 * M, n0 = 2 * N, first = 1, last = first + Stages;
  auto memory = std::make_unique<unsigned char[]>(Kernel::kShared);
  auto &shared = Kernel::storage(memory.get());
  shared_memory = (unsigned char *)&shared;

  Map map;
  Kernel kernel(memory.get(), map, map);
  auto copy_x = [&](uint64_t *, void *to, int a, int b) { box_x.copy(to, a, b, [](int k, int row) { return element(row, k); }); };
  auto copy_w = [&](uint64_t *, void *to, int a, int b) {
    box_w.copy(to, a, b, [](int i, int j) { return ByRows ? element(i, j) : element(j, i); });
  };
  int const begun = kernel.begin(n0, first, last, copy_w);
  int step = 0;
  kernel.bring(step, begun, m0, n0, first, last, copy_x, copy_w);
  if (begun != Stages || step != Stages) return -1;

  int wrong = 0;
  for (int group = 0; group < Kernel::kReaders; ++group) {
    auto mine = typename Kernel::Mma{}.get_thread_slice(128 * group);
    auto x = mine.make_fragment_A(mine.partition_A(make_tensor(make_smem_ptr(shared.x), typename Kernel::LayoutX{})));
    auto w = mine.make_fragment_B(mine.partition_B(make_tensor(make_smem_ptr(shared.w), typename Kernel::LayoutW{})));
    int const blocks = size<1>(x), steps = size<2>(x);
    if (blocks != Kernel::kRows || size<1>(w) != 1 || size<2>(w) != steps || steps * 16 != DEEP) return -2;
    for (int at = 0; at < Stages * DEEP; ++at) {
      int const stage = at / DEEP, i = at % DEEP / 16, k = at % 16, real_k = first * DEEP + at;
      for (int block = 0; block < blocks; ++block) {
        uint64_t const descriptor = x(_, block, i, stage).data()[0];
        for (int row = 0; row < 64; ++row)
          wrong += read(descriptor, true, row, k) != element(m0 + 64 * (group + block) + row, real_k);
      }
      uint64_t const descriptor = w(_, 0, i, stage).data()[0];
      for (int row = 0; row < N; ++row) wrong += read(descriptor, !ByRows, row, k) != element(n0 + row, real_k);
    }
  }
  return wrong;
}
