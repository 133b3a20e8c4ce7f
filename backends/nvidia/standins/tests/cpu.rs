//! What running kernels on the host shows.

use byoc_nvidia_standins::cpu::{Buffer, Kernels, Param};

/// The prelude that generated sources begin with.
const PRELUDE: &str = include_str!("../../src/prelude.cuh");

fn kernels(text: &str) -> Kernels {
    Kernels::compile(&format!("{PRELUDE}{text}"))
}

/// Sums of blocks: shared memory of both kinds, barriers, exchanges of warps, and an atomic sum of all.
#[test]
fn blocks_and_warps() {
    let kernels = kernels(
        r#"
template <int N> __device__ float fold(const float* values) {
    __shared__ float copy[N];
    copy[threadIdx.x] = values[N - 1 - threadIdx.x];
    __syncthreads();
    return copy[N - 1 - threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(96, (1 + 1)) sums(const float* __restrict__ in0, float* out0, float* all, i64 n) {
    BYOC_SHARED(memory);
    float* values = reinterpret_cast<float*>(memory);
    __shared__ __align__(16) float warps[3];
    i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x;
    values[threadIdx.x] = i < n ? in0[i] : 0.0f;
    __syncthreads();
    float x = fold<96>(values);
    #pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) x += exchange(x, mask);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x < 32) {
        float y = threadIdx.x < 3 ? warps[threadIdx.x] : 0.0f;
        for (int mask = 16; mask > 0; mask >>= 1) y += exchange(y, mask);
        if (threadIdx.x == 0) { out0[blockIdx.x] = y; atomicAdd(all, y); }
    }
}
"#,
    );
    let values: Vec<f32> = (0..200u8).map(f32::from).collect();
    let (input, output, all) = (Buffer::of(&values), Buffer::new::<f32>(3), Buffer::of(&[0.5f32]));
    let parameters = [Param::Buffer(&input), Param::Buffer(&output), Param::Buffer(&all), Param::Size(200)];
    kernels.launch("sums", [3, 1, 1], [96, 1, 1], 96 * 4, &parameters);
    let expected: Vec<f32> = values.chunks(96).map(|chunk| chunk.iter().sum()).collect();
    assert_eq!((output.read::<f32>(), all.read::<f32>()), (expected, vec![19900.5]));
    let said = kernels.try_launch("sums", [3, 1, 1], [96, 1, 1], 0, &parameters);
    assert_eq!(said, Err("sums: block 0 0 0 writes behind its 0 bytes of dynamic shared memory".into()));
}

/// All values of 16 bits, there and back, and values between neighbours.
#[test]
fn numbers_of_16_bits() {
    let kernels = kernels(
        r#"
extern "C" __global__ void widen(const f16* in0, const bf16* in1, float* out0, float* out1) {
    int i = blockIdx.x * 256 + threadIdx.x;
    out0[i] = to_float(in0[i]);
    out1[i] = to_float(in1[i]);
}
extern "C" __global__ void narrow(const float* in0, f16* out0, bf16* out1, f16* out2) {
    int i = blockIdx.x * 256 + threadIdx.x;
    out0[i] = to_f16(in0[i]);
    out1[i] = to_bf16(in0[i]);
    out2[i] = to_f16(double(in0[i]));
}
"#,
    );
    let bits: Vec<u16> = (0..=u16::MAX).collect();
    let (input, f16s, bf16s) = (Buffer::of(&bits), Buffer::new::<f32>(1 << 16), Buffer::new::<f32>(1 << 16));
    let parameters = [Param::Buffer(&input), Param::Buffer(&input), Param::Buffer(&f16s), Param::Buffer(&bf16s)];
    kernels.launch("widen", [256, 1, 1], [256, 1, 1], 0, &parameters);
    let same =
        |one: &[f32], other: &[f32]| one.iter().zip(other).position(|(a, b)| a != b && !(a.is_nan() && b.is_nan()));
    let expected: Vec<f32> = bits.iter().map(|&bits| half::f16::from_bits(bits).to_f32()).collect();
    assert_eq!(same(&f16s.read(), &expected), None);
    let expected: Vec<f32> = bits.iter().map(|&bits| half::bf16::from_bits(bits).to_f32()).collect();
    assert_eq!(same(&bf16s.read(), &expected), None);

    // Every exponent, with fractions around halves of both types.
    let fractions =
        [0u32, 1, 0x7FFF, 0x8000, 0x8001, 0xFFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x18000, 0x7F_FFFF, 0x7F_F000];
    let mut numbers: Vec<f32> = Vec::new();
    for high in 0..512u32 {
        numbers.extend(fractions.map(|fraction| f32::from_bits(high << 23 | fraction)));
    }
    numbers.resize(numbers.len().next_multiple_of(256), 0.0);
    let count = numbers.len();
    let [one, other, third] = [(); 3].map(|()| Buffer::new::<u16>(count));
    let input = Buffer::of(&numbers);
    let parameters = [Param::Buffer(&input), Param::Buffer(&one), Param::Buffer(&other), Param::Buffer(&third)];
    kernels.launch("narrow", [(count / 256) as u32, 1, 1], [256, 1, 1], 0, &parameters);
    let (one, other, third) = (one.read::<u16>(), other.read::<u16>(), third.read::<u16>());
    for (i, &number) in numbers.iter().enumerate() {
        if number.is_nan() {
            assert_eq!((one[i], other[i]), (0x7FFF, 0x7FFF));
        } else {
            assert_eq!(one[i], half::f16::from_f32(number).to_bits(), "f16 of {number:e}");
            assert_eq!(other[i], half::bf16::from_f32(number).to_bits(), "bf16 of {number:e}");
        }
        assert_eq!(third[i], one[i]);
    }
}

/// A product of 16 x 16 by 16 x 8 on the stand-in for a matrix unit, with the fragments as the prelude documents them.
#[test]
fn matrix_units() {
    let kernels = kernels(
        r#"
extern "C" __global__ void product(const f16* a, const f16* b, float* d) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    auto pair = [](f16 low, f16 high) { return u32(low.bits) | u32(high.bits) << 16; };
    u32 as[4], bs[2];
    for (int i = 0; i < 4; i++) {
        const f16* at = a + (g + i % 2 * 8) * 16 + 2 * t + i / 2 * 8;
        as[i] = pair(at[0], at[1]);
    }
    for (int i = 0; i < 2; i++) {
        const f16* at = b + (2 * t + i * 8) * 8 + g;
        bs[i] = pair(at[0], at[8]);
    }
    float ds[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    mma_f16(ds, as, bs);
    for (int i = 0; i < 4; i++) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = ds[i];
}
"#,
    );
    let half = |value: i32| half::f16::from_f32(value as f32).to_bits();
    let a: Vec<i32> = (0..256).map(|i| i * 7 % 13 - 6).collect();
    let b: Vec<i32> = (0..128).map(|i| i * 5 % 11 - 5).collect();
    let (left, right) =
        (a.iter().copied().map(half).collect::<Vec<_>>(), b.iter().copied().map(half).collect::<Vec<_>>());
    let (left, right, sums) = (Buffer::of(&left), Buffer::of(&right), Buffer::new::<f32>(128));
    let parameters = [Param::Buffer(&left), Param::Buffer(&right), Param::Buffer(&sums)];
    kernels.launch("product", [1, 1, 1], [32, 1, 1], 0, &parameters);
    let element = |at: usize| 1 + (0..16).map(|k| a[at / 8 * 16 + k] * b[k * 8 + at % 8]).sum::<i32>();
    assert_eq!(sums.read::<f32>(), (0..128).map(|at| element(at) as f32).collect::<Vec<_>>());
}

/// Each of these is wrong on a device too, where it may pass unseen.
#[test]
fn what_no_kernel_may_do() {
    let kernels = kernels(
        r#"
extern "C" __global__ void barrier(float* out0) { if (threadIdx.x < 40) __syncthreads(); }
extern "C" __global__ void lanes(float* out0) { if (threadIdx.x != 33) out0[0] = exchange(1.0f, 1); }
extern "C" __global__ void parting(float* out0) {
    if (threadIdx.x == 7) __syncthreads();
    out0[0] = exchange(1.0f, 1);
    if (threadIdx.x != 7) __syncthreads();
}
extern "C" __global__ void outside(float* out0) { out0[threadIdx.x] = 1.0f; }
extern "C" __global__ void before(float* out0) { out0[-1] = 1.0f; }
extern "C" __global__ void unwritten(float* out0) {
    __shared__ float values[64];
    if (threadIdx.x != 5) values[threadIdx.x] = 1.0f;
    __syncthreads();
    out0[threadIdx.x] = values[63 - threadIdx.x];
}
extern "C" __global__ void racing(float* out0) {
    __shared__ float values[64];
    values[threadIdx.x] = threadIdx.x;
    out0[threadIdx.x] = values[threadIdx.x ^ 1];
}
"#,
    );
    let output = Buffer::new::<f32>(64);
    let said = |name: &str| kernels.try_launch(name, [1, 2, 1], [64, 1, 1], 0, &[Param::Buffer(&output)]);
    assert_eq!(said("barrier"), Err("barrier: only 40 of 64 threads of block 0 0 0 reach a barrier".into()));
    let alone = "waits for lanes ffffffff of its warp, and not all come";
    assert_eq!(said("lanes"), Err(format!("lanes: lane 0 of warp 1 of block 0 0 0 {alone}")));
    assert_eq!(said("parting"), Err(format!("parting: lane 0 of warp 0 of block 0 0 0 {alone}")));
    assert_eq!(said("none"), Err("there is no kernel none".into()));
    let said_of = |parameters: &[Param<'_>]| kernels.try_launch("outside", [1, 1, 1], [64, 1, 1], 0, parameters);
    assert_eq!(said_of(&[]), Err("outside takes parameters of [8] bytes and is given []".into()));
    let small = Buffer::new::<f32>(63);
    let message = "outside writes to byte 252 of parameter 0, which has 252";
    assert_eq!(said_of(&[Param::Buffer(&small)]), Err(message.into()));
    assert_eq!(said("before"), Err("before writes to byte -4 of parameter 0, which has 256".into()));
    let nans = |name: &str| {
        let output = Buffer::new::<f32>(64);
        kernels.launch(name, [1, 1, 1], [64, 1, 1], 0, &[Param::Buffer(&output)]);
        output.read::<f32>().iter().filter(|value| value.is_nan()).count()
    };
    assert_eq!((nans("unwritten"), nans("racing")), (1, 32));
}

#[test]
fn errors_of_a_source() {
    let said = |text: &str| Kernels::try_compile(text).err().expect("it has an error");
    let text = "extern \"C\" __global__ void k(float* out0) {\n    out0[0] = none;\n}\n";
    assert_eq!(said(text), "kernels.cu(2): error: 'none' was not declared in this scope\n");
    assert!(
        said("void none();\nextern \"C\" __global__ void k() { none(); }\n")
            .contains("undefined reference to `none()'")
    );
}
