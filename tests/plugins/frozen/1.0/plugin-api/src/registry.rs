//! The backends of this image. `inventory` collects them inside one linked binary or library and never across
//! `dlopen`: a plugin's list is handed over by index through its module.

use crate::backend::Backend;

/// One `register_backend!`.
pub struct Registration {
    /// The backend.
    pub backend: &'static dyn Backend,
    /// Where it was registered.
    pub place: &'static str,
}

inventory::collect!(Registration);

/// The backends that are linked into this image, in the order of where they were registered.
pub fn registered() -> Vec<&'static dyn Backend> {
    let mut registrations: Vec<_> = inventory::iter::<Registration>.into_iter().collect();
    // The order of registration is the linker's; a plugin's indices must not depend on it. Nothing of a backend is called
    // for it: a panic here would be nobody's.
    registrations.sort_by_key(|registration| registration.place);
    registrations.into_iter().map(|registration| registration.backend).collect()
}

/// Registers a backend: `register_backend!(Acme);`, where `Acme` is a constant expression of a type that implements
/// [`Backend`](crate::Backend).
#[macro_export]
macro_rules! register_backend {
    ($backend:expr) => {
        $crate::__private::inventory::submit! { $crate::Registration { backend: &$backend, place: concat!(module_path!(), ":", line!()) } }
    };
}
