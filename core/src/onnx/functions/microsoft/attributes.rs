//! The attributes of operators of onnxruntime's domain.

use crate::ops::attributes::{List, float, float_or, floats, int, int_or, ints, string, string_or};

pub(in super::super) const ATTENTION: List = &[
    int_or("do_rotary", 0),
    float_or("mask_filter_value", -10000.0),
    int("num_heads").required(),
    int("past_present_share_buffer"),
    ints("qkv_hidden_sizes"),
    int("rotary_embedding_dim"),
    float("scale"),
    int_or("unidirectional", 0),
];
pub(in super::super) const AVERAGE_POOL: List = &[
    string_or("auto_pad", "NOTSET"),
    int_or("ceil_mode", 0),
    int_or("channels_last", 0),
    int_or("count_include_pad", 0),
    ints("kernel_shape").required(),
    ints("pads"),
    ints("strides"),
];
pub(in super::super) const CONV: List = &[
    string_or("auto_pad", "NOTSET"),
    ints("dilations"),
    int_or("group", 1),
    ints("kernel_shape"),
    ints("pads"),
    ints("strides"),
];
pub(in super::super) const CONV_TRANSPOSE: List = &[
    string_or("auto_pad", "NOTSET"),
    ints("dilations"),
    int_or("group", 1),
    ints("kernel_shape"),
    ints("output_padding"),
    ints("strides"),
];
pub(in super::super) const EMBED: List = &[float_or("epsilon", 1e-12), int_or("mask_index_type", 0)];
pub(in super::super) const FUSED_CONV: List = &[
    string("activation"),
    floats("activation_params"),
    string_or("auto_pad", "NOTSET"),
    ints("dilations"),
    int_or("group", 1),
    ints("kernel_shape"),
    ints("pads"),
    ints("strides"),
];
pub(in super::super) const FUSED_GEMM: List = &[
    string("activation"),
    float("activation_alpha"),
    float("activation_beta"),
    float("activation_gamma"),
    float_or("alpha", 1.0),
    float_or("beta", 1.0),
    int_or("transA", 0),
    int_or("transB", 0),
];
pub(in super::super) const FUSED_MATMUL: List = &[
    float_or("alpha", 1.0),
    int_or("transA", 0),
    int_or("transB", 0),
    int_or("transBatchA", 0),
    int_or("transBatchB", 0),
];
pub(in super::super) const GROUPED: List = &[
    int_or("causal", 1),
    int_or("do_rotary", 0),
    string_or("k_quant_type", "NONE"),
    int("kv_cache_bit_width"),
    int("kv_num_heads").required(),
    int_or("local_window_size", -1),
    int("num_heads").required(),
    float_or("qk_norm_epsilon", 1e-6),
    int_or("qk_output", 0),
    int_or("rotary_interleaved", 0),
    float("scale"),
    int_or("sliding_window_cache", 0),
    int_or("smooth_softmax", -1),
    float_or("softcap", 0.0),
    string_or("v_quant_type", "NONE"),
];
pub(in super::super) const GROUP_NORM: List =
    &[int("activation").required(), int_or("channels_last", 1), float_or("epsilon", 1e-5), int("groups").required()];
pub(in super::super) const MAX_POOL: List = &[
    string_or("auto_pad", "NOTSET"),
    int_or("ceil_mode", 0),
    ints("dilations"),
    ints("kernel_shape").required(),
    ints("pads"),
    ints("strides"),
];
pub(in super::super) const MULTI_HEAD: List = &[
    float_or("mask_filter_value", -10000.0),
    int("num_heads").required(),
    float("scale"),
    int_or("unidirectional", 0),
];
pub(in super::super) const QUANTISED_ATTENTION: List = &[
    int("do_rotary"),
    float_or("mask_filter_value", -10000.0),
    int("num_heads").required(),
    int("past_present_share_buffer"),
    float("scale"),
    int_or("unidirectional", 0),
];
pub(in super::super) const QUANTISED_CONV: List = &[
    string_or("auto_pad", "NOTSET"),
    int_or("channels_last", 0),
    ints("dilations"),
    int_or("group", 1),
    ints("kernel_shape"),
    ints("pads"),
    ints("strides"),
];
pub(in super::super) const REDUCE_MEAN: List = &[ints("axes").required(), int("keepdims").required()];
pub(in super::super) const ROTARY: List = &[
    int_or("interleaved", 0),
    int_or("is_packed_batching", 0),
    int_or("num_heads", 0),
    int_or("rotary_embedding_dim", 0),
    float_or("scale", 1.0),
];
pub(in super::super) const SCALED_PRODUCT: List = &[float_or("alpha", 1.0), int_or("transA", 0), int_or("transB", 0)];
pub(in super::super) const SKIP: List = &[float_or("epsilon", 1e-12)];
