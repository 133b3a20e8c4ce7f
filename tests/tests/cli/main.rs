//! What users do and get wrong, through the program itself.

mod bad_input;
mod bench;
mod file_kinds;
mod first_steps;
mod full_disk;
mod inputs;
mod mistakes;
mod out_of_memory;
mod overwriting;
mod pictures;
mod profile;
mod report;
mod sequences;
mod terminal;
mod texts;
mod verify;
