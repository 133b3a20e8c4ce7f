//! What vendors of backends work with: the conformance kit, and the guide from its first command on.

mod conformance;
mod first_hour;
mod guide;
mod packages;
