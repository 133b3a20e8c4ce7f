//! Arrays of NumPy's files as the tests have tensors. Failures end the test.

use std::path::Path;

use byoc_tools::npy::{self, Array};
use byoc_tools::{npz, tensor};

use crate::places;
use crate::tensor::Tensor;

/// The arrays of the file, by name, in its order.
pub fn read(path: &Path) -> Vec<(String, Tensor)> {
    let arrays = npz::read(path).unwrap_or_else(|error| panic!("{error}"));
    arrays.into_iter().map(|(name, array)| (name, plain(array))).collect()
}

/// The array of a file that has one and no name for it, `.npy`.
pub fn read_one(path: &Path) -> Tensor {
    plain(npy::open(path).unwrap_or_else(|error| panic!("{error}")))
}

/// The array of that name.
pub fn find(arrays: &[(String, Tensor)], name: &str) -> Tensor {
    let found = arrays.iter().find(|(known, _)| known == name);
    found.unwrap_or_else(|| panic!("there is no array '{name}'")).1.clone()
}

/// Writes arrays under their names.
pub fn write(path: &Path, arrays: &[(&str, &Tensor)]) {
    let owned = |&(name, Tensor { dtype, shape, bytes }): &(&str, &Tensor)| {
        let tensor = tensor::Tensor::new(*dtype, shape.clone(), bytes.clone());
        (name.to_owned(), tensor.expect("as many bytes as elements"))
    };
    let arrays: Vec<_> = arrays.iter().map(owned).collect();
    npz::write(path, &arrays).unwrap_or_else(|error| panic!("{error}"));
}

/// Writes one array, which has no name there, as `.npy` files have it.
pub fn write_one(path: &Path, Tensor { dtype, shape, bytes }: &Tensor) {
    let tensor = tensor::Tensor::new(*dtype, shape.clone(), bytes.clone()).expect("as many bytes as elements");
    let mut file = Vec::new();
    npy::write(&tensor, &mut file).expect("memory takes it");
    places::write(path.parent().expect("a folder"), path.file_name().expect("a name").to_str().expect("text"), file);
}

/// Of its own type; bf16 comes as `u16`.
fn plain(array: Array) -> Tensor {
    let tensor = array.into_tensor_like(None).unwrap_or_else(|found| panic!("the array is {found}"));
    Tensor::new(tensor.dtype(), tensor.shape().to_vec(), tensor.bytes().to_vec())
}
