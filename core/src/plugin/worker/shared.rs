//! Shares constants with a worker: the host sends ranges of files that it has mapped, and the worker maps the same files
//! again.

use std::fs::File;
use std::io::{BufWriter, Write};

use byoc_plugin_api::{ConstantId, Constants, Error, TensorView, contiguous_strides, from_hex, to_hex};
use bytes::Bytes;

use super::protocol::{Shared, SharedBytes, SharedFile, SharedTensor};
use crate::constants::View;
use crate::map::{map_file, origin, path_of};

/// Most bytes of code that are sent as they are.
const SMALL: usize = 4 << 10;

/// The constants of a request, and the temporary file of those that are not in a mapped file.
pub(super) struct SharedConstants {
    pub(super) shared: Shared,
    /// Kept open while the worker may map it.
    _rest: Option<File>,
}

/// Describes constants to a worker. Constants outside of mapped files, mostly small ones, go to a temporary file.
pub(super) fn share_constants(constants: &Constants<'_>) -> Result<SharedConstants, Error> {
    let mut shared = Shared::default();
    let mut rest = Vec::new();
    for (id, view) in constants.iter() {
        let (shape, strides) = (view.shape().to_vec(), view.strides().to_vec());
        let mut tensor = SharedTensor { id, dtype: view.dtype(), shape, strides, place: None };
        if view.has_data() && !view.is_empty() {
            match origin(view.as_ptr()) {
                Some(found) => {
                    let file = SharedFile { path: found.path, length: found.length };
                    tensor.place = Some((index_of(&mut shared.files, file), found.offset));
                }
                None => rest.push((shared.tensors.len(), view)),
            }
        }
        shared.tensors.push(tensor);
    }
    let rest = if rest.is_empty() { None } else { Some(write(&rest, &mut shared)?) };
    Ok(SharedConstants { shared, _rest: rest })
}

fn index_of(files: &mut Vec<SharedFile>, file: SharedFile) -> usize {
    files.iter().position(|known| *known == file).unwrap_or_else(|| {
        files.push(file);
        files.len() - 1
    })
}

/// Writes the elements of `views` row-major into a temporary file.
fn write(views: &[(usize, &TensorView<'_>)], shared: &mut Shared) -> Result<File, Error> {
    let file = tempfile::tempfile()?;
    let mut out = BufWriter::new(&file);
    let (index, mut offset) = (shared.files.len(), 0);
    for (tensor, view) in views {
        let tensor = &mut shared.tensors[*tensor];
        tensor.strides = contiguous_strides(&tensor.shape);
        tensor.place = Some((index, offset));
        let mut failed = Ok(());
        view.for_each_element(|bytes| {
            if failed.is_ok() {
                failed = out.write_all(bytes);
            }
        });
        failed?;
        offset += view.byte_len();
    }
    out.flush()?;
    drop(out);
    shared.files.push(SharedFile { path: path_of(&file), length: offset });
    Ok(file)
}

/// Describes bytes to a worker; the file is to be kept until it has answered.
pub(super) fn share_bytes(bytes: &[u8]) -> Result<(SharedBytes, Option<File>), Error> {
    if bytes.len() <= SMALL {
        return Ok((SharedBytes::Hex(to_hex(bytes)), None));
    }
    let length = bytes.len();
    if let Some(found) = origin(bytes.as_ptr()) {
        let file = SharedFile { path: found.path, length: found.length };
        return Ok((SharedBytes::File { file, offset: found.offset, length }, None));
    }
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    let shared = SharedFile { path: path_of(&file), length };
    Ok((SharedBytes::File { file: shared, offset: 0, length }, Some(file)))
}

/// The bytes of files, in order. They are mapped again for each request: the paths hold descriptor numbers, which may be
/// reused.
pub(super) fn map(files: &[SharedFile]) -> Result<Vec<Bytes>, Error> {
    files.iter().map(map_one).collect()
}

/// The bytes that a request is about.
pub(super) fn bytes(shared: &SharedBytes) -> Result<Bytes, Error> {
    let (file, offset, length) = match shared {
        SharedBytes::Hex(text) => {
            return from_hex(text).map(Bytes::from).ok_or_else(|| Error::new("the code is not hex text"));
        }
        SharedBytes::File { file, offset, length } => (file, *offset, *length),
    };
    let bytes = map_one(file)?;
    let end = offset.checked_add(length).filter(|&end| end <= bytes.len());
    end.map(|end| bytes.slice(offset..end)).ok_or_else(|| Error::new("the code ends beyond its file"))
}

fn map_one(file: &SharedFile) -> Result<Bytes, Error> {
    let bytes = map_file(&file.path).map_err(|error| Error::new(error.message))?;
    if bytes.len() < file.length {
        return Err(Error::new(format!("'{}' has become shorter", file.path.display())));
    }
    Ok(bytes)
}

/// The constants of a request.
pub(super) fn constants<'a>(tensors: &'a [SharedTensor], files: &'a [Bytes]) -> Result<Constants<'a>, Error> {
    let entries = tensors.iter().map(|tensor| Ok((tensor.id, view(tensor, files)?)));
    Ok(Constants::new(entries.collect::<Result<Vec<(ConstantId, _)>, Error>>()?))
}

fn view<'a>(tensor: &'a SharedTensor, files: &'a [Bytes]) -> Result<TensorView<'a>, Error> {
    let data = match tensor.place {
        None => std::ptr::null(),
        Some((file, offset)) => {
            let file = files.get(file).ok_or_else(|| Error::new("a constant is not in a file"))?;
            if !fits(tensor, offset, file.len()) {
                return Err(Error::new(format!("constant {} ends beyond its file", tensor.id)));
            }
            file[offset..].as_ptr()
        }
    };
    // SAFETY: the elements are within the mapped file, as was just checked, and type and shape live as long.
    Ok(unsafe { TensorView::from_raw(data, tensor.dtype, &tensor.shape, &tensor.strides) })
}

/// Whether every element of a view that starts at `offset` is within `length` bytes.
fn fits(tensor: &SharedTensor, offset: usize, length: usize) -> bool {
    if tensor.dtype.shares_bytes() {
        let Some(shape) = tensor.shape.iter().map(|&size| usize::try_from(size).ok()).collect::<Option<Vec<_>>>()
        else {
            return false;
        };
        let end = tensor.dtype.bytes_of(&shape).and_then(|bytes| bytes.checked_add(offset));
        let counted = end.is_some_and(|end| end <= length) && shape.len() == tensor.strides.len();
        return counted && View { shape, strides: tensor.strides.clone(), offset: 0 }.suits(tensor.dtype);
    }
    let reach = || -> Option<(i64, i64)> {
        let size = tensor.dtype.unpacked_bytes() as i64;
        let first = i64::try_from(offset).ok()?;
        let (mut low, mut high) = (first, first.checked_add(size)?);
        for (&count, &stride) in tensor.shape.iter().zip(&tensor.strides) {
            let span = count.checked_sub(1)?.max(0).checked_mul(stride)?.checked_mul(size)?;
            let end = if span < 0 { &mut low } else { &mut high };
            *end = end.checked_add(span)?;
        }
        Some((low, high))
    };
    tensor.shape.len() == tensor.strides.len()
        && reach().is_some_and(|(low, high)| low >= 0 && high as u64 <= length as u64)
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::DType;

    use super::*;

    #[test]
    fn code_reaches_the_other_side_whatever_its_size() {
        for length in [0, 1, SMALL, SMALL + 1] {
            let code: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
            let (shared, file) = share_bytes(&code).expect("shared");
            assert_eq!(file.is_some(), length > SMALL);
            assert_eq!(bytes(&shared).expect("bytes"), code);
        }
        bytes(&SharedBytes::Hex("0g".into())).expect_err("no hex");
    }

    #[test]
    fn constants_reach_the_other_side_as_they_are() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("weights");
        let bytes: Vec<u8> = (0..96).collect();
        std::fs::write(&path, &bytes).expect("write");
        let mapped = map_file(&path).expect("map");
        let (shape, strides) = ([3i64, 2], [1i64, 3]);
        let turned = TensorView::from_bytes(&mapped[..24], DType::F32, &[2, 3], &[3, 1]).expect("a view");
        // SAFETY: six elements of the mapping, read by columns.
        let turned = unsafe { TensorView::from_raw(turned.as_ptr(), DType::F32, &shape, &strides) };
        let heap = [1.5f32, 2.5];
        let heap = TensorView::from_slice(&heap, &[2], &[1]).expect("a view");
        let given = Constants::new(vec![(ConstantId(4), turned), (ConstantId(9), heap)]);
        let shared = share_constants(&given).expect("shared");
        let files = map(&shared.shared.files).expect("mapped");
        assert_eq!((files.len(), &files[0][..]), (2, bytes.as_slice()));
        let received = constants(&shared.shared.tensors, &files).expect("constants");
        for (id, view) in given.iter() {
            let found = received.get(id).expect("there");
            assert_eq!(found.shape(), view.shape());
            assert_eq!(found.to_vec::<f32>(), view.to_vec::<f32>());
        }
        let mut beyond = shared.shared.tensors;
        beyond[0].place = Some((0, 96 - 20));
        assert!(constants(&beyond, &files).is_err());
    }

    /// A dimension of 1 may have any stride.
    #[test]
    fn elements_that_share_bytes_reach_the_other_side_as_they_lie() {
        let tensor = |shape: &[i64], strides: &[i64], offset| SharedTensor {
            id: ConstantId(0),
            dtype: DType::I4,
            shape: shape.to_vec(),
            strides: strides.to_vec(),
            place: Some((0, offset)),
        };
        let cases = [
            (tensor(&[3, 3], &[3, 1], 3), true),
            (tensor(&[9, 1], &[1, 9], 0), true),
            (tensor(&[3, 3], &[3, 1], 4), false),
            (tensor(&[3, 3], &[1, 3], 0), false),
            (tensor(&[3, 3], &[3], 0), false),
            (tensor(&[-1], &[1], 0), false),
            (tensor(&[i64::MAX, i64::MAX], &[i64::MAX, 1], 0), false),
        ];
        for (tensor, expected) in cases {
            let Some((_, offset)) = tensor.place else { continue };
            assert_eq!(fits(&tensor, offset, 8), expected, "{:?} by {:?}", tensor.shape, tensor.strides);
        }
    }
}
