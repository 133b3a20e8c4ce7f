//! What cublasLt gives to hold: a handle, descriptions, preferences. Each is destroyed when it is dropped.
//!
//! The calls are those of `cudarc`, which reads a status as one of the ten that it has names for; another one would be no
//! value of that type. cublas_api.h has had these ten, and no others, in every version from 11.4 to 13.4, for which the
//! bindings were made, and `locate` accepts none before 12.0 and none after 13.x.

use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys;
use cudarc::cublaslt::sys::cublasLtMatmulDescAttributes_t as DescriptionAttribute;
use cudarc::cublaslt::sys::cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute;
use cudarc::cublaslt::sys::cublasLtMatrixLayoutAttribute_t as LayoutAttribute;

use byoc_plugin_api::Error;

/// What a failed call says.
pub(super) type Result<T> = std::result::Result<T, CublasError>;

/// A handle of the current context.
pub(super) struct Handle(pub(super) sys::cublasLtHandle_t);

/// What is computed: types, transposes, epilogue.
pub(super) struct Description(pub(super) sys::cublasLtMatmulDesc_t);

/// How the matrices of one operand lie.
pub(super) struct Layout(pub(super) sys::cublasLtMatrixLayout_t);

/// What an algorithm may need.
pub(super) struct Preference(pub(super) sys::cublasLtMatmulPreference_t);

// SAFETY: the four are opaque objects of cublasLt, which are tied to a context and not to a thread. Their owner is used
// from one thread at a time.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Send for Description {}
// SAFETY: as above.
unsafe impl Send for Layout {}

impl Handle {
    pub(super) fn new() -> std::result::Result<Handle, Error> {
        let started = result::create_handle().map(Handle);
        started.map_err(|cause| {
            Error::new(format!("cublasLt does not start ({:?})", cause.0))
                .hint("See whether the device has memory left")
        })
    }
}

impl Description {
    pub(super) fn new(compute: sys::cublasComputeType_t, scale: sys::cudaDataType) -> Result<Description> {
        result::create_matmul_desc(compute, scale).map(Description)
    }

    /// Sets an attribute that has the type of `value` in cublasLt.h.
    pub(super) fn set<T: Copy>(&self, attribute: DescriptionAttribute, value: T) -> Result<()> {
        // SAFETY: the description lives, and `value` is read as so many bytes before the call returns.
        unsafe { result::set_matmul_desc_attribute(self.0, attribute, (&raw const value).cast(), size_of::<T>()) }
    }
}

impl Layout {
    /// Column-major matrices of so many rows and columns, `leading` elements from column to column.
    pub(super) fn new(data: sys::cudaDataType, (rows, columns): (u64, u64), leading: i64) -> Result<Layout> {
        result::create_matrix_layout(data, rows, columns, leading).map(Layout)
    }

    /// So many of them, `stride` elements from one to the next.
    pub(super) fn repeated(self, count: i32, stride: i64) -> Result<Layout> {
        self.set(LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count)?;
        self.set(LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride)?;
        Ok(self)
    }

    fn set<T: Copy>(&self, attribute: LayoutAttribute, value: T) -> Result<()> {
        // SAFETY: as for a description.
        unsafe { result::set_matrix_layout_attribute(self.0, attribute, (&raw const value).cast(), size_of::<T>()) }
    }
}

impl Preference {
    pub(super) fn new() -> Result<Preference> {
        result::create_matmul_pref().map(Preference)
    }

    /// Sets an attribute that has the type of `value` in cublasLt.h.
    pub(super) fn set<T: Copy>(&self, attribute: PreferenceAttribute, value: T) -> Result<()> {
        // SAFETY: as for a description.
        unsafe { result::set_matmul_pref_attribute(self.0, attribute, (&raw const value).cast(), size_of::<T>()) }
    }
}

// A failure to destroy is one of the device, of which the next call tells.
impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once.
        let _ = unsafe { result::destroy_handle(self.0) };
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once.
        let _ = unsafe { result::destroy_matmul_desc(self.0) };
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once.
        let _ = unsafe { result::destroy_matmul_pref(self.0) };
    }
}
