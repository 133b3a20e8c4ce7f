//! ONNX's operators as plain loops in f64: what a product has to come to.

use byoc_plugin_api::Node;

/// A tensor, row-major.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Vec<f64>,
}

impl Array {
    /// What a node makes of its operands.
    pub(crate) fn of_node(node: &Node, operands: &[&Array]) -> Array {
        let each = |function: fn(f64) -> f64| operands[0].each(function);
        match node.op.as_str() {
            "MatMul" => matmul(operands[0], operands[1]),
            "Gemm" => gemm(node, operands),
            "Conv" => one_pixel(operands[0], operands[1]),
            "Add" => operands[0].with(operands[1], |a, b| a + b),
            "Mul" => operands[0].with(operands[1], |a, b| a * b),
            "Div" => operands[0].with(operands[1], |a, b| a / b),
            "Pow" => operands[0].with(operands[1], f64::powf),
            "Tanh" => each(f64::tanh),
            "Relu" => each(|x| x.max(0.0)),
            "Gelu" => each(gelu),
            other => panic!("no {other} here"),
        }
    }

    fn each(&self, function: fn(f64) -> f64) -> Array {
        Array { shape: self.shape.clone(), data: self.data.iter().map(|&x| function(x)).collect() }
    }

    /// Element by element, each operand repeated where it is 1.
    fn with(&self, other: &Array, function: fn(f64, f64) -> f64) -> Array {
        let shape = broadcast(&self.shape, &other.shape);
        let data = indices(&shape).iter().map(|index| function(self.at(index), other.at(index))).collect();
        Array { shape, data }
    }

    /// The element at the end of an index that may have more dimensions, and more in those that are 1.
    fn at(&self, index: &[usize]) -> f64 {
        let own = &index[index.len() - self.shape.len()..];
        let at = own.iter().zip(&self.shape).fold(0, |at, (&i, &size)| at * size + if size == 1 { 0 } else { i });
        self.data[at]
    }

    fn transposed(&self) -> Array {
        let shape = vec![self.shape[1], self.shape[0]];
        let data = indices(&shape).iter().map(|index| self.at(&[index[1], index[0]])).collect();
        Array { shape, data }
    }
}

fn broadcast(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let size = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis]);
    (0..rank).map(|axis| if size(a, axis) == 1 { size(b, axis) } else { size(a, axis) }).collect()
}

fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![vec![]], |all, &size| {
        all.iter().flat_map(|index| (0..size).map(move |i| [index.as_slice(), &[i]].concat())).collect()
    })
}

/// numpy's `matmul`.
fn matmul(a: &Array, b: &Array) -> Array {
    let left = if a.shape.len() == 1 { vec![1, a.shape[0]] } else { a.shape.clone() };
    let right = if b.shape.len() == 1 { vec![b.shape[0], 1] } else { b.shape.clone() };
    let (x, w) = (Array { shape: left, data: a.data.clone() }, Array { shape: right, data: b.data.clone() });
    let (x_batch, x_matrix) = x.shape.split_at(x.shape.len() - 2);
    let (w_batch, w_matrix) = w.shape.split_at(w.shape.len() - 2);
    let batch = broadcast(x_batch, w_batch);
    let whole = [batch.as_slice(), &[x_matrix[0], w_matrix[1]]].concat();
    let element = |index: &Vec<usize>| {
        let (at, place) = index.split_at(batch.len());
        let term = |k: usize| x.at(&[at, &[place[0], k]].concat()) * w.at(&[at, &[k, place[1]]].concat());
        (0..x_matrix[1]).map(term).sum()
    };
    let data = indices(&whole).iter().map(element).collect();
    let mut shape = batch.clone();
    shape.extend((a.shape.len() > 1).then_some(x_matrix[0]));
    shape.extend((b.shape.len() > 1).then_some(w_matrix[1]));
    Array { shape, data }
}

fn gemm(node: &Node, operands: &[&Array]) -> Array {
    let turned = |array: &Array, name| if node.int(name, 0) != 0 { array.transposed() } else { array.clone() };
    let mut y = matmul(&turned(operands[0], "transA"), &turned(operands[1], "transB"));
    let (alpha, beta) = (f64::from(node.float("alpha", 1.0)), f64::from(node.float("beta", 1.0)));
    y.data.iter_mut().for_each(|y| *y *= alpha);
    let Some(c) = operands.get(2) else { return y };
    let scaled = Array { shape: c.shape.clone(), data: c.data.iter().map(|c| beta * c).collect() };
    y.with(&scaled, |y, c| y + c)
}

/// A convolution with a kernel of one pixel.
fn one_pixel(x: &Array, w: &Array) -> Array {
    let mut shape = x.shape.clone();
    shape[1] = w.shape[0];
    let element = |index: &Vec<usize>| {
        let term = |channel: usize| {
            let mut at = index.clone();
            at[1] = channel;
            x.at(&at) * w.data[index[1] * w.shape[1] + channel]
        };
        (0..w.shape[1]).map(term).sum()
    };
    Array { data: indices(&shape).iter().map(element).collect(), shape }
}

/// With tanh.
fn gelu(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
    0.5 * x * (1.0 + inner.tanh())
}
