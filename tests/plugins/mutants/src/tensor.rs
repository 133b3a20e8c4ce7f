//! Tensors in plain row-major memory, and the places of their elements.

use byoc_plugin_api::{DType, Error, TensorView, TensorViewMut};

/// Elements as the kernels compute with them: integers and booleans of any width are `i64`.
#[derive(Clone, Debug)]
enum Data {
    Floats(Vec<f32>),
    Ints(Vec<i64>),
}

/// A tensor that a kernel reads or gives.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    shape: Vec<usize>,
    data: Data,
}

/// The elements of a tensor of `f32`, with its shape.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) shape: &'a [usize],
}

impl Tensor {
    /// A tensor of `f32`, each element computed from its index.
    pub(crate) fn of(shape: &[usize], value: impl FnMut(&[usize]) -> f32) -> Tensor {
        Tensor { shape: shape.to_vec(), data: Data::Floats(each_index(shape, value)) }
    }

    /// A tensor of integers, each element computed from its index.
    pub(crate) fn of_ints(shape: &[usize], value: impl FnMut(&[usize]) -> i64) -> Tensor {
        Tensor { shape: shape.to_vec(), data: Data::Ints(each_index(shape, value)) }
    }

    /// A tensor of these elements in row-major order; those that are missing are 0.
    pub(crate) fn from_floats(shape: &[usize], mut data: Vec<f32>) -> Tensor {
        data.resize(count(shape), 0.0);
        Tensor { shape: shape.to_vec(), data: Data::Floats(data) }
    }

    /// A copy of what the host lends, whatever its strides and alignment.
    pub(crate) fn copy(view: &TensorView<'_>) -> Result<Tensor, Error> {
        let shape = sizes(view.shape());
        let data = match view.dtype() {
            DType::F32 => Data::Floats(view.to_vec()?),
            DType::I64 => Data::Ints(view.to_vec()?),
            DType::I32 => Data::Ints(view.to_vec::<i32>()?.into_iter().map(i64::from).collect()),
            DType::Bool => {
                let mut bytes = Vec::with_capacity(view.len());
                view.for_each_element(|element| bytes.extend(element.iter().map(|&byte| i64::from(byte))));
                Data::Ints(bytes)
            }
            other => return Err(Error::new(format!("there is no code for tensors of {other}"))),
        };
        Ok(Tensor { shape, data })
    }

    /// A copy of a tensor of `f32` by a reader that does not know strides: it takes the elements as they lie in memory.
    pub(crate) fn copy_as_it_lies(view: &TensorView<'_>) -> Result<Tensor, Error> {
        let right = Tensor::copy(view)?;
        let Data::Floats(data) = &right.data else { return Ok(right) };
        let mut axes: Vec<usize> = (0..right.shape.len()).collect();
        axes.sort_by_key(|&axis| std::cmp::Reverse(view.strides()[axis]));
        let lying: Vec<usize> = axes.iter().map(|&axis| right.shape[axis]).collect();
        let mut index = vec![0; axes.len()];
        let in_memory = each_index(&lying, |place| {
            axes.iter().zip(place).for_each(|(&axis, &at)| index[axis] = at);
            data[flat(&index, &right.shape)]
        });
        Ok(Tensor { data: Data::Floats(in_memory), ..right })
    }

    /// The elements of a tensor of `f32`.
    pub(crate) fn view(&self) -> Result<View<'_>, Error> {
        match &self.data {
            Data::Floats(data) => Ok(View { data, shape: &self.shape }),
            Data::Ints(_) => Err(Error::new("expected a tensor of f32, found integers")),
        }
    }

    /// The elements of a tensor of integers or booleans.
    pub(crate) fn ints(&self) -> Result<&[i64], Error> {
        match &self.data {
            Data::Ints(data) => Ok(data),
            Data::Floats(_) => Err(Error::new("expected a tensor of integers, found f32")),
        }
    }

    /// Size of each dimension.
    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Fills an output; an error where it has another type or shape.
    pub(crate) fn write(&self, output: &mut TensorViewMut<'_>) -> Result<(), Error> {
        if sizes(output.shape()) != self.shape {
            let message = format!("the output has shape {:?}, and {:?} was computed", output.shape(), self.shape);
            return Err(Error::new(message));
        }
        let other = || Error::new("the output has another type than what was computed");
        match &self.data {
            Data::Floats(data) => output.as_mut_slice().ok_or_else(other)?.copy_from_slice(data),
            Data::Ints(data) => output.as_mut_slice().ok_or_else(other)?.copy_from_slice(data),
        }
        Ok(())
    }
}

impl View<'_> {
    /// The element at an index; 0 beyond the end.
    pub(crate) fn at(&self, index: &[usize]) -> f32 {
        self.nth(flat(index, self.shape))
    }

    /// The element at a place in row-major order; 0 beyond the end.
    pub(crate) fn nth(&self, place: usize) -> f32 {
        self.data.get(place).copied().unwrap_or(0.0)
    }

    /// The element that stands for `index` of a tensor to which this one is broadcast.
    pub(crate) fn broadcast(&self, index: &[usize]) -> f32 {
        self.nth(broadcast_place(index, self.shape))
    }
}

/// The row-major place in a tensor of `shape` that stands for `index` of one to which it is broadcast.
pub(crate) fn broadcast_place(index: &[usize], shape: &[usize]) -> usize {
    let more = index.len().saturating_sub(shape.len());
    let own = index[more..].iter().zip(shape).map(|(&at, &size)| if size == 1 { 0 } else { at });
    flat(&own.collect::<Vec<_>>(), shape)
}

/// The shape to which all of these are broadcast.
pub(crate) fn broadcast_shape<'a>(shapes: impl IntoIterator<Item = &'a [usize]>) -> Result<Vec<usize>, Error> {
    let mut all: Vec<usize> = Vec::new();
    for shape in shapes {
        let more = shape.len().saturating_sub(all.len());
        all.splice(0..0, std::iter::repeat_n(1, more));
        let from = all.len() - shape.len();
        for (known, &size) in all[from..].iter_mut().zip(shape) {
            *known = match (*known, size) {
                (1, size) | (size, 1) => size,
                (known, size) if known == size => size,
                (known, size) => return Err(Error::new(format!("sizes {known} and {size} are not broadcast"))),
            };
        }
    }
    Ok(all)
}

/// The row-major place of an index.
pub(crate) fn flat(index: &[usize], shape: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |place, (&at, &size)| place * size + at)
}

/// Number of elements.
pub(crate) fn count(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Sizes as the host counts them, as numbers to count with.
pub(crate) fn sizes(shape: &[i64]) -> Vec<usize> {
    shape.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect()
}

/// An axis that may count from the end.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<usize, Error> {
    let counted = if axis < 0 { axis + rank as i64 } else { axis };
    let found = usize::try_from(counted).ok().filter(|&axis| axis < rank);
    found.ok_or_else(|| Error::new(format!("a tensor of {rank} dimensions has no axis {axis}")))
}

/// Calls `value` with every index in row-major order.
fn each_index<T>(shape: &[usize], mut value: impl FnMut(&[usize]) -> T) -> Vec<T> {
    let elements = count(shape);
    let mut values = Vec::with_capacity(elements);
    let mut index = vec![0; shape.len()];
    for _ in 0..elements {
        values.push(value(&index));
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    values
}
