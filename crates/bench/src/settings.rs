//! What the command line asks for.

use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use spindle_interop::{Failure, Result};

use crate::contender::Contender;

/// Rows that are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Group {
    /// Sequential and random access to large files
    Large,
    /// Small files in one directory
    One,
    /// Small files in many directories
    Spread,
    /// Unpacking and removing a tree of sources, and the load of postmark
    Tree,
    /// A million names
    Names,
    /// Making and filling images
    Image,
    /// Checks and repairs of a million files and of large ones
    Check,
    /// The library without a mount, with one thread and with two
    Library,
    /// Spindle beside itself, without and with clustering
    Clusters,
    /// What surviving crashes costs
    Durable,
    /// File systems over several devices, and work that waits for them
    Devices,
    /// The speed of simulations
    Events,
    /// The analyser of traces
    Analysis,
    /// Cache simulation beside libCacheSim
    Cachesim,
}

/// The same work on Spindle, on kernel ext4 over a loop device and on fuse2fs, side by side
///
/// Prints ratios in Markdown, the medians over the rounds. Needs root.
#[derive(Clone, Debug, Parser)]
#[command(name = "spindle-bench")]
pub struct Settings {
    /// How often everything is measured
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub rounds: u64,
    /// How much of the full work is done, for trying out
    #[arg(long = "scale", value_name = "PERCENT", default_value_t = 100)]
    pub scale_percent: u64,
    /// The groups of rows to measure, with commas between them; all when not given
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    pub only: Vec<Group>,
    /// The file systems to mount, with commas between them; all that there are when not given
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    contenders: Vec<Contender>,
    /// Save the rates of all rounds as JSON; they are added to those that FILE has
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Measure nothing; show what differs between two saved tables beyond the noise
    #[arg(long, value_names = ["BEFORE", "AFTER"], num_args = 2)]
    compare: Vec<PathBuf>,
    /// Where images and mounts are made
    #[arg(value_name = "DIRECTORY", default_value = "target/bench")]
    pub directory: PathBuf,
}

impl Settings {
    /// Returns those of this program's command line; ends the program when they are none.
    pub fn get() -> Result<Self> {
        let mut settings = Self::parse();
        // Paths are handed to programs that work elsewhere.
        settings.directory =
            std::path::absolute(&settings.directory).map_err(Failure::of("the directory"))?;
        Ok(settings)
    }

    /// Returns the two saved tables to compare, if nothing is to be measured.
    pub fn compared(&self) -> Option<[&Path; 2]> {
        if let [before, after] = &self.compare[..] { Some([before, after]) } else { None }
    }

    /// Returns the wanted file systems that this system has, the one that the others are compared
    /// with first.
    pub fn contenders(&self) -> impl Iterator<Item = Contender> {
        Contender::all().filter(|contender| self.contenders.is_empty() || self.contenders.contains(contender))
    }

    /// Returns `full` scaled down, at least 1.
    pub fn scaled(&self, full: u64) -> u64 {
        (full * self.scale_percent / 100).max(1)
    }

    /// Returns whether this group of rows is wanted.
    pub fn wants(&self, group: Group) -> bool {
        self.only.is_empty() || self.only.contains(&group)
    }
}
