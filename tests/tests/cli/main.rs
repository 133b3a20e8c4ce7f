//! What users do and get wrong, through the program itself.

mod bad_input;
mod first_steps;
mod full_disk;
mod out_of_memory;
mod overwriting;
mod profile;
mod sequences;
mod texts;
mod verify;
