//! Tests of the elementwise operators.

use crate::ops::testing::{Case, check};

const TYPES_AND_SHAPES: &[Case] = &[
    ("Relu", "", "f32[2,batch]", "f32[2,batch]"),
    ("Relu", "", "u8[2]", "[B201] input 0 is u8[2], expected one of f32, f64, f16, bf16, i8, i16, i32, i64"),
    ("Tanh", "", "i64[2]", "[B201] input 0 is i64[2], expected one of f32, f64, f16, bf16"),
    ("Tanh", "", "f32[2] f32[2]", "[B106] has 2 inputs, expected 1"),
    ("Add", "", "f32[2,3] f32[3]", "f32[2,3]"),
    ("Add", "", "f32[a,1] f32[b]", "f32[a,b]"),
    ("Add", "", "f32[a,3] f32[4,3]", "f32[4,3]"),
    ("Add", "", "f32[2] f32[3]", "[B202] input 1 is f32[3], which does not broadcast with [2]"),
    (
        "Add",
        "",
        "f32[2] f64[2]",
        "[B201] input 1 is f64[2], but input 0 is f32[2]: both must have the same element type",
    ),
    ("Add", "", "f32[2]", "[B106] has 1 inputs, expected 2"),
    ("Add", "", "f32[2] -", "[B106] input 1 is absent, but the operator needs it"),
    ("Max", "", "f32[2,1] f32[3] f32[]", "f32[2,3]"),
    ("Max", "", "f32[2] -", "[B106] input 1 is absent, but the operator needs it"),
    ("Sum", "", "f32[2]", "f32[2]"),
    ("Pow", "", "f32[2] i64[]", "f32[2]"),
    ("Mod", "", "f32[2] f32[]", "f32[2]"),
    ("Mod", "fmod=1", "f32[2] f32[]", "f32[2]"),
    ("Mod", "fmod=x", "i32[2] i32[]", "[B106] attribute 'fmod' must be an integer"),
    ("Less", "", "i32[2] i32[]", "bool[2]"),
    ("IsNaN", "", "f16[2]", "bool[2]"),
    ("Where", "", "bool[2,1] f32[3] f32[]", "f32[2,3]"),
    ("Where", "", "f32[2] f32[3] f32[]", "[B201] input 0 is f32[2], expected bool"),
    ("Clip", "", "f32[2] - f32[]", "f32[2]"),
    ("Clip", "", "f32[2] f32[2]", "[B202] input 1 is f32[2], expected one element"),
    ("Gelu", "approximate=tanh", "f32[2]", "f32[2]"),
    ("Gelu", "approximate=x", "f32[2]", "[B106] attribute 'approximate' is 'x', expected one of none, tanh"),
];

#[test]
fn types_and_shapes() {
    check(TYPES_AND_SHAPES);
}

const KNOWN_ELEMENTS_ARE_COMPUTED: &[Case] = &[
    ("Add", "", "i64[2]=1,batch i64[]=2", "i64[2] = 3,batch + 2"),
    ("Sub", "", "i64[]=seq i64[1]=1", "i64[1] = seq - 1"),
    ("Mul", "", "i64[1]=batch i64[1]=12", "i64[1] = batch*12"),
    ("Mul", "", "i32[]=65536 i32[]=65536", "i32[] = unknown"),
    ("Mul", "", "i64[]=9223372036854775807 i64[]=2", "i64[] = unknown"),
    ("Div", "", "i64[]=-7 i64[]=2", "i64[] = -3"),
    ("Div", "", "i64[]=h i64[]=2", "i64[] = floor(h/2)"),
    ("Div", "", "i64[]=7 i64[]=0", "i64[] = unknown"),
    ("Div", "", "f32[]=7 f32[]=2", "f32[] = 3.5"),
    ("Mul", "", "f32[]=3.5 f32[]=2", "f32[] = 7"),
    ("Mul", "", "f32[]=0 f32[]=-2", "f32[] = unknown"),
    ("Mul", "", "i32[]=0 i32[]=-2", "i32[] = 0"),
    ("Div", "", "f32[]=0 f32[]=-2", "f32[] = unknown"),
    ("Neg", "", "f32[]=0", "f32[] = unknown"),
    ("Mul", "", "f32[]=h f32[]=2", "f32[] = h*2"),
    ("Mul", "", "f32[]=h f32[]=0.5", "f32[] = unknown"),
    ("Mod", "", "i64[]=-7 i64[]=2", "i64[] = 1"),
    ("Mod", "fmod=1", "i64[]=-7 i64[]=2", "i64[] = -1"),
    ("Mod", "", "i64[]=h i64[]=2", "i64[] = h - floor(h/2)*2"),
    ("Max", "", "i64[]=h i64[]=0", "i64[] = h"),
    ("Min", "", "i64[1]=3 i64[]=5 i64[]=4", "i64[1] = 3"),
    ("Neg", "", "i64[1]=seq", "i64[1] = -seq"),
    ("Equal", "", "i64[3]=batch,-1,4 i64[]=-1", "bool[3] = 0,1,0"),
    ("Equal", "", "i64[]=batch i64[]=1", "bool[] = unknown"),
    ("Not", "", "bool[2]=0,1", "bool[2] = 1,0"),
    ("And", "", "bool[2]=0,1 bool[]=1", "bool[2] = 0,1"),
    ("Less", "", "i64[2]=1,2 i64[]=2", "bool[2] = 1,0"),
    ("LessOrEqual", "", "i64[2]=2,3 i64[]=2", "bool[2] = 1,0"),
    ("Greater", "", "i64[2]=2,3 i64[]=2", "bool[2] = 0,1"),
    ("GreaterOrEqual", "", "i64[2]=1,2 i64[]=2", "bool[2] = 0,1"),
    ("Where", "", "bool[2]=1,0 i64[2]=1,1 i64[2]=batch,4", "i64[2] = 1,4"),
];

#[test]
fn known_elements_are_computed() {
    check(KNOWN_ELEMENTS_ARE_COMPUTED);
}
