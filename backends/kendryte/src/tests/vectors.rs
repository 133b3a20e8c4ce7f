//! The test vectors that the vendor's reference kernels computed (kmodel v3, section 4).

use serde_json::Value;

use super::build;
use crate::kmodel::Kmodel;
use crate::kmodel::arguments::{Arguments, Kernel, POOLINGS};
use crate::kmodel::conv::Conv;
use crate::kmodel::tables::{BatchNorm, Segment};
use crate::simulator::Simulator;

fn numbers(value: &Value) -> Vec<i64> {
    value.as_array().expect("a list").iter().map(|number| number.as_i64().expect("a number")).collect()
}

fn bytes(value: &Value) -> Vec<u8> {
    numbers(value).into_iter().map(|number| number as u8).collect()
}

fn conv(case: &Value) -> Conv {
    let number = |name: &str| case[name].as_i64().expect("a number");
    let arguments = Arguments {
        depthwise: number("dw") == 1,
        kernel: if number("k") == 1 { Kernel::One } else { Kernel::Three },
        pooling: POOLINGS[number("pool") as usize],
        pad_value: number("pad") as u8,
        arg_x: number("arg_x") as i32,
        shr_x: number("shr_x") as u32,
        arg_w: number("arg_w") as i32,
        shr_w: number("shr_w") as u32,
        arg_add: number("arg_add"),
        ..build::arguments(number("ic") as u32, number("oc") as u32, number("w") as u32, number("h") as u32)
    };
    let words = case["bn"].as_array().expect("a list").iter().map(numbers);
    let batch_norm = words.map(|word| BatchNorm { mul: word[0] as i32, add: word[1] as i32, shift: word[2] as u8 });
    let rows: Vec<_> = case["act"].as_array().expect("a list").iter().map(numbers).collect();
    let activation = std::array::from_fn(|number| {
        let [start, mul, shift, bias] = rows[number][..] else { panic!("four numbers a segment") };
        Segment { start, mul: mul as i16, shift: shift as u8, bias: bias as u8 }
    });
    let weights = bytes(&case["weights"]);
    Conv { output: 0, arguments: arguments.settled(), weights, batch_norm: batch_norm.collect(), activation }
}

#[test]
fn vectors_of_the_reference_kernels() {
    let cases: Vec<_> = include_str!("vectors.jsonl").lines().collect();
    assert_eq!(cases.len(), 3);
    for case in cases {
        let case: Value = serde_json::from_str(case).expect("JSON");
        let file = build::single(conv(&case)).emit().expect("a kmodel");
        let mut simulator = Simulator::new(Kmodel::parse(&file).expect("a kmodel"), 1).expect("it can run");
        simulator.run(&bytes(&case["x"])).expect("it runs");
        assert_eq!(simulator.output(0).expect("an output"), bytes(&case["out"]), "{}", case["name"]);
    }
}
