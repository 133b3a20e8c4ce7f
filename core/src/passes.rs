//! Stage 3: passes after which every value has a type and no node is dead.

mod bodies;
mod complete;
mod declared;
pub mod infer;
mod prune;
mod shaping;
mod views;

pub(crate) use self::bodies::{capture_sizes, settle as settle_bodies};
pub(crate) use self::complete::complete;
pub(crate) use self::declared::undeclared;
pub(crate) use self::prune::prune;
pub(crate) use self::shaping::shaping;
pub(crate) use self::views::{Round, infer_and_fold_views, widens_weight};
