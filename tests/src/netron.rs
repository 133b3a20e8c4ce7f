//! Holds our reading of a kmodel file against netron's, which was written by others from other sources.

use std::path::Path;

use byoc_kendryte_backend::kmodel::arguments::{Arguments, Kernel, POOLINGS};
use byoc_kendryte_backend::kmodel::bodies::{FullyConnected, Pool, Shape};
use byoc_kendryte_backend::kmodel::conv::Conv;
use byoc_kendryte_backend::kmodel::layout::Layout;
use byoc_kendryte_backend::kmodel::{Kmodel, Layer, Operation};
use serde_json::{Value, json};

use crate::trial::Needed;
use crate::{data, places};

/// Layers that netron 9.3 has no layout for: it stops at a file that has one.
const UNKNOWN: [&str; 6] =
    ["ADD", "QUANTIZED_ADD", "AVERAGE_POOL2D", "L2_NORMALIZATION", "CHANNELWISE_DEQUANTIZE", "LOGISTIC"];

/// Panics where netron finds something else in a file than our reader: another layer, address, shape, register or
/// weight. Layers that netron does not know are left out, by writing the rest anew.
pub fn compare(file: &Path) -> Needed<()> {
    let mut kmodel = Kmodel::parse(&places::read(file)).expect("a kmodel");
    let all = kmodel.layers.len();
    kmodel.layers.retain(|layer| !UNKNOWN.contains(&layer.operation.name()));
    let scratch = places::temporary();
    let found = if kmodel.layers.len() == all {
        data::kmodel_layers(file)?
    } else {
        let known = kmodel.emit().expect("it was a kmodel with more layers");
        data::kmodel_layers(&places::write(scratch.path(), "known.kmodel", known))?
    };
    assert_eq!(found["format"], "kmodel v3");
    let layers = found["layers"].as_array().expect("a list");
    assert_eq!(layers.len(), kmodel.layers.len());
    for (number, (found, layer)) in layers.iter().zip(&kmodel.layers).enumerate() {
        hold(&format!("layer {number}, {}", layer.operation.name()), found, &expected(layer));
    }
    Ok(())
}

/// Panics where what is expected is not found; more may be found.
fn hold(path: &str, found: &Value, expected: &Value) {
    match expected {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| hold(&format!("{path}.{name}"), &found[name], field))
        }
        Value::Array(elements) => {
            assert_eq!(found.as_array().map(Vec::len), Some(elements.len()), "{path}");
            elements.iter().enumerate().for_each(|(n, element)| hold(&format!("{path}[{n}]"), &found[n], element));
        }
        // In the file it is an f32.
        Value::Number(number) if number.is_f64() => {
            assert_eq!(found.as_f64().map(|value| value as f32), number.as_f64().map(|value| value as f32), "{path}");
        }
        _ => assert_eq!(found, expected, "{path}"),
    }
}

fn expected(layer: &Layer) -> Value {
    let mut value = match &layer.operation {
        Operation::Conv(conv) => convolution(conv),
        Operation::GlobalAveragePool(body) => {
            plain(body.input, body.output, &json!({"kernel_size": body.kernel_size, "channels": body.channels}))
        }
        Operation::QuantizedMaxPool(body) => max_pool(body),
        Operation::Quantize(body) => {
            let meaning = &body.quantization;
            let fields = json!({"count": body.count, "scale": meaning.scale, "bias": meaning.bias});
            plain(body.input, body.output, &fields)
        }
        Operation::Dequantize(body) => {
            let meaning = &body.quantization;
            let fields = json!({"count": body.count, "scale": meaning.scale, "bias": meaning.bias});
            plain(body.input, body.output, &fields)
        }
        Operation::Requantize(body) => {
            plain(body.input, body.output, &json!({"count": body.count, "table": body.table.to_vec()}))
        }
        Operation::Softmax(body) => plain(body.input, body.output, &json!({"channels": body.count})),
        Operation::FullyConnected(body) => fully_connected(body),
        Operation::RemovePadding(body) => plain(body.input, body.output, &json!({"channels": body.channels})),
        Operation::AddPadding(body) => json!({
            "inputs": {"input": [{"address": main(body.input)}]},
            "outputs": {"output": [{"address": kpu(body.kpu_output)}]},
            "attributes": {"channels": body.channels},
        }),
        Operation::Upload(body) => json!({
            "inputs": {"input": [{"address": main(body.input), "shape": sizes(&body.shape)}]},
            "outputs": {"output": [{"address": kpu(body.kpu_output), "shape": sizes(&body.shape)}]},
        }),
        // Of the others: that it is there.
        _ => json!({}),
    };
    value["type"] = json!(layer.operation.name());
    value["attributes"]["flags"] = json!(layer.flags);
    value
}

fn main(address: u32) -> String {
    format!("main:{address}")
}

fn kpu(row: u32) -> String {
    format!("kpu:{row}")
}

fn sizes(shape: &Shape) -> Value {
    json!([shape.width, shape.height, shape.channels])
}

fn plain(input: u32, output: u32, attributes: &Value) -> Value {
    json!({
        "inputs": {"input": [{"address": main(input)}]},
        "outputs": {"output": [{"address": main(output)}]},
        "attributes": attributes,
    })
}

fn max_pool(body: &Pool) -> Value {
    json!({
        "inputs": {"input": [{"address": main(body.input), "shape": sizes(&body.input_shape)}]},
        "outputs": {"output": [{"address": main(body.output), "shape": sizes(&body.output_shape)}]},
        "attributes": {
            "kernel": [body.kernel_width, body.kernel_height],
            "stride": [body.stride_width, body.stride_height],
            "padding": [body.padding_width, body.padding_height],
        },
    })
}

fn fully_connected(body: &FullyConnected) -> Value {
    let (inputs, outputs) = (body.sizes.input_channels, body.sizes.output_channels);
    let mut value =
        plain(body.sizes.input, body.sizes.output, &json!({"in_channels": inputs, "out_channels": outputs}));
    value["inputs"]["weights"] = json!([{"bytes": hex(body.weights.iter().flat_map(|weight| weight.to_le_bytes()))}]);
    value["inputs"]["bias"] = json!([{"bytes": hex(body.bias.iter().flat_map(|bias| bias.to_le_bytes()))}]);
    value
}

fn convolution(conv: &Conv) -> Value {
    let arguments = &conv.arguments;
    let shape = json!([arguments.output_width(), arguments.output_height(), arguments.output_channels]);
    let norms = conv.batch_norm.iter();
    let norms: Vec<_> = norms
        .map(|norm| json!({"norm_mul": low24(norm.mul), "norm_add": norm.add, "norm_shift": norm.shift}))
        .collect();
    let segments = conv.activation.iter().map(|segment| {
        let mul = segment.mul.cast_unsigned();
        let mut value = json!({"shift_number": segment.shift, "y_mul": mul, "bias": segment.bias.cast_signed()});
        keep_if_read(&mut value, "x_start", segment.start);
        value
    });
    let segments: Vec<_> = segments.collect();
    json!({
        "inputs": {
            "input": [{"address": kpu(arguments.source)}],
            "weights": [{"bytes": hex(conv.weights.iter().copied())}],
        },
        "outputs": {
            "output": [{"address": main(conv.output), "shape": shape}, {"address": kpu(arguments.destination)}],
        },
        "attributes": registers(arguments),
        "chain": [
            {"type": "BATCH_NORM", "attributes": {"weights": norms}},
            {"type": "ACTIVATION", "attributes": {"activate_para": segments}},
        ],
    })
}

/// The registers by the names that the SDK has for them.
fn registers(arguments: &Arguments) -> Value {
    let (input, output) = (Layout::new(arguments.width), Layout::new(arguments.output_width()));
    let channel = arguments.output_width() * arguments.output_height();
    let mut value = json!({
        "interrupt_enabe": {"depth_wise_layer": u8::from(arguments.depthwise)},
        "image_channel_num": {
            "i_ch_num": arguments.input_channels - 1,
            "o_ch_num": arguments.output_channels - 1,
            "o_ch_num_coef": arguments.channels_per_load - 1,
        },
        "image_size": {
            "i_row_wid": arguments.width - 1,
            "i_col_high": arguments.height - 1,
            "o_row_wid": arguments.output_width() - 1,
            "o_col_high": arguments.output_height() - 1,
        },
        "kernel_pool_type_cfg": {
            "kernel_type": u8::from(arguments.kernel == Kernel::Three),
            "pool_type": POOLINGS.iter().position(|pooling| *pooling == arguments.pooling),
            "pad_value": arguments.pad_value,
        },
        "kernel_load_cfg": {"load_time": arguments.loads - 1, "para_size": arguments.load_bytes},
        "kernel_calc_type_cfg": {
            "channel_switch_addr": input.row_length * arguments.height,
            "row_switch_addr": input.row_length,
            "coef_group": input.groups,
        },
        "write_back_cfg": {
            "wb_channel_switch_addr": output.row_length * arguments.output_height(),
            "wb_row_switch_addr": output.row_length,
            "wb_group": output.groups,
        },
        "conv_value": {
            "shr_w": arguments.shr_w,
            "shr_x": arguments.shr_x,
            "arg_w": low24(arguments.arg_w),
            "arg_x": low24(arguments.arg_x),
        },
        "conv_value2": {},
        "dma_parameter": {
            "send_data_out": u8::from(arguments.send_data_out),
            "channel_byte_num": (channel - 1) & 0xffff,
            "dma_total_byte": channel * arguments.output_channels - 1,
        },
    });
    keep_if_read(&mut value["conv_value2"], "arg_add", arguments.arg_add);
    value
}

/// Expects a register of more than 32 bits where netron reads it right.
fn keep_if_read(value: &mut Value, name: &str, number: i64) {
    if (0..1 << 31).contains(&number) {
        value[name] = json!(number);
    }
}

/// A signed number of 24 bits as the bits in the file, which netron gives.
fn low24(number: i32) -> u32 {
    number.cast_unsigned() & 0xff_ffff
}

fn hex(bytes: impl Iterator<Item = u8>) -> String {
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "layer.sizes[1].width")]
    fn a_difference_is_told_by_its_place() {
        let found = json!({"sizes": [{"width": 3, "more": 1}, {"width": 4}]});
        hold("layer", &found, &json!({"sizes": [{"width": 3}, {"width": 5}]}));
    }

    #[test]
    #[should_panic(expected = "layer.scale")]
    fn what_is_missing_is_a_difference() {
        hold("layer", &json!({}), &json!({"scale": 0.5}));
    }
}
