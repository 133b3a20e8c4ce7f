//! The backends of this image. `inventory` collects them inside one linked binary or library and never across
//! `dlopen`: a plugin's list is handed over by index through its module.

use crate::backend::Backend;

/// One `register_backend!`.
pub struct Registration {
    /// The backend.
    pub backend: &'static dyn Backend,
}

inventory::collect!(Registration);

/// The backends that are linked into this image, by name.
pub fn registered() -> Vec<&'static dyn Backend> {
    let mut backends: Vec<_> =
        inventory::iter::<Registration>.into_iter().map(|registration| registration.backend).collect();
    // The order of registration is the linker's; a plugin's indices must not depend on it.
    backends.sort_by_key(|backend| backend.describe().name);
    backends
}

/// Registers a backend: `register_backend!(Acme);`, where `Acme` is a constant expression of a type that implements
/// [`Backend`](crate::Backend).
#[macro_export]
macro_rules! register_backend {
    ($backend:expr) => {
        $crate::__private::inventory::submit! { $crate::Registration { backend: &$backend } }
    };
}
