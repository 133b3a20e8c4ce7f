//! `MaxUnpool`: elements back where `MaxPool` found them.

use byoc_plugin_api::{DType, Error, Window};

use super::array::{Item, count, each, elements, shaped};
use super::call::{Call, Outputs};
use super::{FLOAT, I64, Kernel, kernel};

/// The operators of this file.
pub(super) const KERNELS: &[Kernel] = &[kernel("MaxUnpool", max_unpool, &[FLOAT, I64])];

/// The shape that the windows say: the indices count its elements.
fn pooled_from(call: &Call<'_, '_>, shape: &[usize]) -> Result<Vec<usize>, Error> {
    let [batch, channels, spatial @ ..] = shape else {
        return Err(Error::new("MaxUnpool needs a tensor of rank 3 or more"));
    };
    let window = Window::of(call.node, spatial.len(), None).map_err(|refusal| Error::new(refusal.message))?;
    let axis = |(axis, &size): (usize, &usize)| {
        let full = size.checked_mul(window.strides[axis])?.checked_add(window.kernel[axis])?;
        full.checked_sub(window.strides[axis])?.checked_sub(window.begin[axis])?.checked_sub(window.end[axis])
    };
    let spatial: Option<Vec<usize>> = spatial.iter().enumerate().map(axis).collect();
    let spatial = spatial.ok_or_else(|| Error::new("MaxUnpool has sizes that leave no output"))?;
    let shape = [vec![*batch, *channels], spatial].concat();
    count(&shape)?;
    Ok(shape)
}

/// `MaxUnpool`: all elements but those of the input are 0. Of a wished shape that is larger, the output is the first part along each axis.
pub(crate) fn max_unpool(call: &Call<'_, '_>) -> Outputs {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    if x.shape() != indices.shape() || indices.dtype() != DType::I64 {
        return Err(Error::new(format!("MaxUnpool of {:?} with indices {:?}", x.shape(), indices.shape())));
    }
    let from = pooled_from(call, x.shape())?;
    let shape = match call.ints(2) {
        Some(sizes) => super::array::dims(&sizes)?,
        None => from.clone(),
    };
    if shape.len() != from.len() || shape.iter().zip(&from).any(|(size, least)| size < least) {
        return Err(Error::new(format!("MaxUnpool to {shape:?}, where the windows reach over {from:?}")));
    }
    let total = call.count(&shape)?;
    let indices = indices.to_ints();
    // The place in the output of an element of the shape that the indices are about.
    let place = |index: i64| {
        let mut rest = usize::try_from(index).ok()?;
        let (mut place, mut step) = (0, 1);
        for (&size, &wanted) in from.iter().zip(&shape).rev() {
            place += rest.checked_rem(size)? * step;
            rest /= size;
            step *= wanted;
        }
        (rest == 0).then_some(place)
    };
    each!(x, x => {
        let mut y = vec![Default::default(); total];
        for (&value, &index) in elements(&x.view()).iter().zip(&indices) {
            let place = place(index).ok_or_else(|| Error::new(format!("index {index} of MaxUnpool is not in {from:?}")))?;
            y[place] = value;
        }
        Ok(vec![Item::wrap(shaped(&shape, y)?)])
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{all, counting, first, ints, list, tensor};

    #[test]
    fn elements_go_back_to_their_places() {
        let attributes = [("kernel_shape", list(&[2, 2])), ("strides", list(&[2, 2]))];
        let inputs = || vec![counting(&[1, 1, 1, 2]), tensor(&[1, 1, 1, 2], &[5i64, 2])];
        assert_eq!(
            first("MaxUnpool", &attributes, inputs()),
            (vec![1, 1, 2, 4], vec![0.0, 0.0, 2.0, 0.0, 0.0, 1.0, 0.0, 0.0])
        );
        let wider = [inputs(), vec![ints(&[1, 1, 2, 5])]].concat();
        let (shape, y) = first("MaxUnpool", &attributes, wider);
        assert_eq!((shape, y), (vec![1, 1, 2, 5], vec![0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]));
        let error = |inputs| all("MaxUnpool", &attributes, inputs).expect_err("a wrong input").message;
        let narrower = [inputs(), vec![ints(&[1, 1, 2, 3])]].concat();
        assert_eq!(error(narrower), "MaxUnpool to [1, 1, 2, 3], where the windows reach over [1, 1, 2, 4]");
        for index in [8i64, -1] {
            let wrong = vec![counting(&[1, 1, 1, 1]), tensor(&[1, 1, 1, 1], &[index])];
            assert_eq!(error(wrong), format!("index {index} of MaxUnpool is not in [1, 1, 2, 2]"));
        }
    }
}
