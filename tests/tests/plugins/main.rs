//! Plugins as files and processes: which are opened, what they are asked and told, and those that misbehave.

mod calibration;
mod code_versions;
mod crashes;
mod custom_operators;
mod discovery;
mod files;
mod hostile;
mod hostile_in_c;
mod isolated_runs;
mod strings;
mod tools_and_candidates;
mod workers;
