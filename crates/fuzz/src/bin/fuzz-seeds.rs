//! Writes the seeds of a target as files: `fuzz-seeds TARGET DIRECTORY`. Without arguments it lists
//! the targets.

use spindle_fuzz::{TARGETS, target};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, directory] = &arguments[..] else {
        for target in TARGETS {
            println!("{:12} {}", target.name, target.about);
        }
        return Ok(());
    };
    let target = target(name).ok_or_else(|| format!("there is no target {name}"))?;
    for (n, seed) in (target.seeds)().into_iter().enumerate() {
        std::fs::write(Path::new(directory).join(format!("seed-{n}")), seed)?;
    }
    Ok(())
}
