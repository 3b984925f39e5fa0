//! The `spindle` command.
fn main() {}
