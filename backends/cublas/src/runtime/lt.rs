//! Owned handles of cublasLt: descriptors and preferences, which are destroyed on drop, and a handle for each device, which
//! is kept for the life of the process.
//!
//! The calls are those of `cudarc`, which reads a status as one of the ten that it has names for; another one would be no
//! value of that type. cublas_api.h has had these ten, and no others, in every version from 11.4 to 13.4, for which the
//! bindings were made, and `locate` accepts none before 12.0 and none after 13.x.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use byoc_nvidia::attached_domain::AttachedDomain;
use byoc_plugin_api::Error;
use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys;
use cudarc::cublaslt::sys::cublasLtMatmulDescAttributes_t as DescriptionAttribute;
use cudarc::cublaslt::sys::cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute;
use cudarc::cublaslt::sys::cublasLtMatrixLayoutAttribute_t as LayoutAttribute;

/// A failed call and its status.
#[derive(Debug)]
pub(super) struct Failed {
    call: &'static str,
    status: sys::cublasStatus_t,
}

/// The result of a call.
pub(super) type Result<T> = std::result::Result<T, Failed>;

impl Failed {
    /// The status.
    pub(super) fn status(&self) -> sys::cublasStatus_t {
        self.status
    }

    /// Whether cublasLt does not support the problem. It has the same status for finding no algorithm.
    pub(super) fn is_unsupported(&self) -> bool {
        self.status == sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} says {:?}", self.call, self.status)
    }
}

/// The result of the call of that name.
pub(super) fn called<T>(call: &'static str, given: std::result::Result<T, CublasError>) -> Result<T> {
    given.map_err(|CublasError(status)| Failed { call, status })
}

/// The handle of a device's primary context: one for all regions, and for the life of the process.
///
/// Destroying it would synchronise the device, which fails while another session captures a graph; and each handle takes
/// memory on the device. So it is never destroyed, and its context is kept.
#[derive(Clone, Copy)]
pub(super) struct Handle(pub(super) sys::cublasLtHandle_t);

/// The descriptor of the operation: types, transposes, epilogue.
pub(super) struct Description(pub(super) sys::cublasLtMatmulDesc_t);

/// The layout of one operand.
pub(super) struct Layout(pub(super) sys::cublasLtMatrixLayout_t);

/// The limits of an algorithm.
pub(super) struct Preference(pub(super) sys::cublasLtMatmulPreference_t);

/// The handles, by the ordinals of their devices.
static HANDLES: Mutex<BTreeMap<u32, Handle>> = Mutex::new(BTreeMap::new());

// SAFETY: cublasLt may be called from several threads with one handle, which is tied to a context and not to a thread.
unsafe impl Send for Handle {}
// SAFETY: these are opaque objects of cublasLt, which are tied to no thread. Their owner is used from one at a time.
unsafe impl Send for Description {}
// SAFETY: as above.
unsafe impl Send for Layout {}

impl Handle {
    /// The handle of the device, whose context is current.
    pub(super) fn of(attached: &AttachedDomain) -> std::result::Result<Handle, Error> {
        let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
        let ordinal = attached.device().ordinal;
        if let Some(handle) = handles.get(&ordinal) {
            return Ok(*handle);
        }
        let started = result::create_handle().map(Handle);
        let handle = started.map_err(|cause| {
            Error::new(format!("cublasLt does not start on cuda:{ordinal} ({:?})", cause.0))
                .hint("See whether the device has memory left")
        })?;
        attached.keep()?;
        handles.insert(ordinal, handle);
        Ok(handle)
    }
}

impl Description {
    pub(super) fn new(compute: sys::cublasComputeType_t, scale: sys::cudaDataType) -> Result<Description> {
        called("cublasLtMatmulDescCreate", result::create_matmul_desc(compute, scale)).map(Description)
    }

    /// Sets an attribute that has the type of `value` in cublasLt.h.
    pub(super) fn set<T: Copy>(&self, attribute: DescriptionAttribute, value: T) -> Result<()> {
        // SAFETY: the description lives, and `value` is read as so many bytes before the call returns.
        let set =
            unsafe { result::set_matmul_desc_attribute(self.0, attribute, (&raw const value).cast(), size_of::<T>()) };
        called("cublasLtMatmulDescSetAttribute", set)
    }
}

impl Layout {
    /// Column-major matrices of so many rows and columns, `leading` elements from column to column.
    pub(super) fn new(data: sys::cudaDataType, (rows, columns): (u64, u64), leading: i64) -> Result<Layout> {
        let made = result::create_matrix_layout(data, rows, columns, leading);
        called("cublasLtMatrixLayoutCreate", made).map(Layout)
    }

    /// Makes it a batch, with `stride` elements from one matrix to the next.
    pub(super) fn repeated(self, count: i32, stride: i64) -> Result<Layout> {
        self.set(LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count)?;
        self.set(LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride)?;
        Ok(self)
    }

    fn set<T: Copy>(&self, attribute: LayoutAttribute, value: T) -> Result<()> {
        // SAFETY: as for a description.
        let set = unsafe {
            result::set_matrix_layout_attribute(self.0, attribute, (&raw const value).cast(), size_of::<T>())
        };
        called("cublasLtMatrixLayoutSetAttribute", set)
    }
}

impl Preference {
    pub(super) fn new() -> Result<Preference> {
        called("cublasLtMatmulPreferenceCreate", result::create_matmul_pref()).map(Preference)
    }

    /// Sets an attribute that has the type of `value` in cublasLt.h.
    pub(super) fn set<T: Copy>(&self, attribute: PreferenceAttribute, value: T) -> Result<()> {
        // SAFETY: as for a description.
        let set =
            unsafe { result::set_matmul_pref_attribute(self.0, attribute, (&raw const value).cast(), size_of::<T>()) };
        called("cublasLtMatmulPreferenceSetAttribute", set)
    }
}

// A failure to destroy comes from the device, and the next call returns it as well.
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
