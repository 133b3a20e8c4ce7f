//! Windows of convolutions and poolings, in numbers.

use std::collections::BTreeMap;

use byoc_plugin_api::{Attribute, Dim, same_padding, transposed_padding};

use crate::ir::{Node, TensorType};
use crate::ops::OpDef;

/// Writes kernel, strides, dilations and padding out. `auto_pad` stays, without `pads`, where it depends on a size that is
/// not known.
pub(super) fn complete(
    def: &OpDef,
    attributes: &mut BTreeMap<String, Attribute>,
    x: &[Dim],
    weights: Option<&TensorType>,
) -> Option<()> {
    let sizes = |weights: &TensorType| {
        weights.shape.get(2..)?.iter().map(|size| Some(size.fixed()? as i64)).collect::<Option<Vec<_>>>()
    };
    let kernel = match (attributes.get("kernel_shape"), weights) {
        (Some(Attribute::Ints(kernel)), _) => kernel.clone(),
        (_, weights) => sizes(weights?)?,
    };
    let ones = Attribute::Ints(vec![1; kernel.len()]);
    attributes.insert("kernel_shape".into(), Attribute::Ints(kernel.clone()));
    let [strides, dilations] = ["strides", "dilations"].map(|name| {
        let list = attributes.get(name).unwrap_or(&ones).clone();
        if def.attribute(name).is_some() {
            attributes.insert(name.into(), list.clone());
        }
        list
    });
    if def.attribute("output_padding").is_some() {
        return transposed(attributes, &x[2..], [&kernel, &list(strides)?, &list(dilations)?]);
    }
    let none = Attribute::Ints(vec![0; 2 * kernel.len()]);
    let auto_pad = match attributes.remove("auto_pad") {
        Some(Attribute::String(auto_pad)) if auto_pad != "NOTSET" => auto_pad,
        _ => {
            attributes.entry("pads".into()).or_insert(none);
            return Some(());
        }
    };
    // It overrides these.
    attributes.remove("pads");
    if def.attribute("ceil_mode").is_some() {
        attributes.insert("ceil_mode".into(), Attribute::Int(0));
    }
    let pads = match (auto_pad.as_str(), strides, dilations) {
        ("VALID", ..) => Some(none),
        (same, Attribute::Ints(strides), Attribute::Ints(dilations)) => {
            same_pads(&x[2..], &kernel, &strides, &dilations, same == "SAME_UPPER")
        }
        _ => None,
    };
    match pads {
        Some(pads) => attributes.insert("pads".into(), pads),
        None => attributes.insert("auto_pad".into(), Attribute::String(auto_pad)),
    };
    Some(())
}

/// The padding of SAME_UPPER, or SAME_LOWER; `None` where it is not known.
fn same_pads(x: &[Dim], kernel: &[i64], strides: &[i64], dilations: &[i64], upper: bool) -> Option<Attribute> {
    let axis = |axis: usize| {
        let [kernel, stride, dilation] = [kernel, strides, dilations]
            .map(|list| usize::try_from(*list.get(axis)?).ok())
            .map(Option::unwrap_or_default);
        let span = kernel.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
        // Where every element has a window, all sizes are padded alike. An axis without elements has no window.
        let size = match x[axis].fixed() {
            None if stride == 1 => 1,
            size => size.filter(|&size| size > 0)?,
        };
        same_padding(size, stride, span, upper)
    };
    let pads: Option<Vec<_>> = (0..x.len()).map(axis).collect();
    let (begin, end): (Vec<_>, Vec<_>) = pads?.into_iter().unzip();
    let pads = begin.into_iter().chain(end).map(|pad| i64::try_from(pad).ok());
    pads.collect::<Option<_>>().map(Attribute::Ints)
}

/// The windows of Col2Im, whose kernel is an input.
pub(super) fn complete_image(node: &mut Node, inputs: &[Option<&TensorType>]) {
    let axes = inputs.get(1).copied().flatten().and_then(|image| image.shape.first()?.fixed());
    // No tensor has more.
    let Some(axes) = axes.filter(|&axes| axes <= 64) else { return };
    for (name, value, count) in [("dilations", 1, axes), ("pads", 0, 2 * axes), ("strides", 1, axes)] {
        node.attributes.entry(name.into()).or_insert_with(|| Attribute::Ints(vec![value; count]));
    }
}

fn list(attribute: Attribute) -> Option<Vec<i64>> {
    if let Attribute::Ints(values) = attribute { Some(values) } else { None }
}

/// The padding of a transposed convolution. `auto_pad` and `output_shape` stay, without `pads`, where it depends on a size that is not
/// known; otherwise `pads` and `output_padding` say all.
fn transposed(
    attributes: &mut BTreeMap<String, Attribute>,
    x: &[Dim],
    [kernel, strides, dilations]: [&[i64]; 3],
) -> Option<()> {
    let axes = kernel.len();
    let none = |count| Attribute::Ints(vec![0; count]);
    let extra = list(attributes.entry("output_padding".into()).or_insert_with(|| none(axes)).clone())?;
    let auto_pad = match attributes.get("auto_pad") {
        Some(Attribute::String(auto_pad)) => auto_pad.clone(),
        _ => "NOTSET".to_owned(),
    };
    let wanted = attributes.get("output_shape").cloned().and_then(list);
    if wanted.is_none() && !auto_pad.starts_with("SAME") {
        attributes.remove("auto_pad");
        if auto_pad == "VALID" {
            attributes.remove("pads");
        }
        attributes.entry("pads".into()).or_insert_with(|| none(2 * axes));
        return Some(());
    }
    attributes.remove("pads");
    let surplus = |axis: usize| {
        let stride = *strides.get(axis)?;
        let span = kernel[axis].checked_sub(1)?.checked_mul(*dilations.get(axis)?)?.checked_add(1)?;
        let more = span.checked_add(*extra.get(axis)?)?;
        match &wanted {
            Some(wanted) => {
                let size = i64::try_from(x[axis].fixed()?).ok()?;
                stride.checked_mul(size - 1)?.checked_add(more)?.checked_sub(*wanted.get(axis)?)
            }
            // As many elements as strides: how many of them there are does not matter.
            None => more.checked_sub(stride),
        }
    };
    let surplus: Vec<i64> = (0..x.len()).map(surplus).collect::<Option<_>>()?;
    let (mut begin, mut end, mut padding) = (Vec::new(), Vec::new(), extra);
    for (surplus, padding) in surplus.into_iter().zip(&mut padding) {
        let (before, after, missing) = transposed_padding(surplus, auto_pad == "SAME_UPPER");
        begin.push(before);
        end.push(after);
        *padding += missing;
    }
    attributes.remove("auto_pad");
    attributes.remove("output_shape");
    attributes.insert("pads".into(), Attribute::Ints([begin, end].concat()));
    attributes.insert("output_padding".into(), Attribute::Ints(padding));
    Some(())
}
