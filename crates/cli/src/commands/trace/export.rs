//! `spindle trace export`

use crate::error::{Context, Failure, Result};
use crate::outfile::{self, Kind, Out, OutArgs};
use crate::progress::Progress;
use spindle_trace::export::{To, export};
use spindle_trace::format::Columns;
use spindle_trace::{Source, iolog};
use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Export a trace for other cache simulators, or for fio to repeat its accesses
///
/// For cache simulators, each read or write of a block becomes a request, in the order of the
/// trace. Blocks are numbered in the order of their first access; the blocks of a deleted file are
/// not requested again. For fio, each run becomes as many reads or writes as it had calls, at the
/// time when it ended, with the opens, closes and syncs. The files that they need are made in a
/// directory; their contents are holes, so give them data (fio --rw=write) if reads are to reach
/// the disk. Files that were only mapped into memory make no requests.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  the trace cannot be read or written    2  invalid command line

EXAMPLES
    spindle trace export --format oracle-general build.trace build.bin
    cachesim build.oracleGeneral.bin oracleGeneral lru 64mb
    spindle trace export --format fio-iolog --directory /mnt/test \\
        build.trace build.iolog
    fio --name=build --read_iolog=build.iolog --ioengine=psync")]
pub struct Args {
    /// Output format: libCacheSim's records, a table with the columns time, object, size and op, or
    /// fio's log of version 3
    #[arg(long, value_enum, value_name = "NAME", default_value = "oracle-general")]
    format: Format,
    /// Block size in bytes (k and m for powers of 1024); for fio, the size of accesses whose calls
    /// were not counted
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = crate::text::parse_bytes)]
    block: u64,
    /// For fio, the directory of the files; they are made, or made longer, as the log needs them
    #[arg(long, value_name = "DIR", required_if_eq("format", "fio-iolog"))]
    directory: Option<PathBuf>,
    /// The trace
    #[arg(value_name = "TRACE")]
    from: PathBuf,
    /// The file to write; - for standard output
    #[arg(value_name = "FILE")]
    to: PathBuf,
    #[command(flatten)]
    out: OutArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    OracleGeneral,
    Csv,
    FioIolog,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    outfile::refuse_input(&args.to, &args.from)?;
    let kind = match args.format {
        Format::OracleGeneral => Kind::Requests,
        Format::Csv => Kind::RequestTable,
        Format::FioIolog => Kind::Iolog,
    };
    if args.directory.is_some() && args.format != Format::FioIolog {
        return Err(Failure::usage("--directory is for --format fio-iolog"));
    }
    outfile::check(&args.to, kind, args.out.force)?;
    let mut source = super::open(&args.from, Columns::NUMBERS)?;
    let out = Out::create(&args.to, kind, args.out.force)?;
    let mapped = match (args.format, &args.directory) {
        (Format::FioIolog, Some(directory)) => accesses(&mut *source, args.block, directory, &out)?,
        (Format::Csv, _) => requests(&mut *source, To::Csv, args.block, &out)?,
        _ => requests(&mut *source, To::OracleGeneral, args.block, &out)?,
    };
    if mapped > 0 {
        log::warn!(
            "{}: {mapped} bytes of files were mapped into memory; the trace does not say what of them was touched, \
             so none is exported",
            args.from.display()
        );
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Writes requests for blocks; returns the bytes that were mapped.
fn requests(source: &mut dyn Source, to: To, block: u64, out: &Out) -> Result<u64> {
    // Records are filled in backwards, which a pipe cannot do.
    let scratch = (to == To::OracleGeneral && out.is_stream()).then(outfile::scratch).transpose()?;
    let file = match &scratch {
        Some(scratch) => scratch.try_clone().context("a temporary file")?,
        None => out.handle()?,
    };
    let bar = Progress::of_fraction("exporting");
    let done = export(source, to, block, (file, Path::new(&out.name)), |part| bar.set_fraction(part))?;
    drop(bar);
    if let Some(mut scratch) = scratch {
        scratch.rewind().context("a temporary file")?;
        io::copy(&mut scratch, &mut out.file()).context(&out.name)?;
    }
    log::info!("{}: {} requests for {} blocks", out.name, done.requests, done.blocks);
    Ok(done.mapped)
}

/// Writes accesses for fio, and makes their files; returns the bytes that were mapped.
fn accesses(source: &mut dyn Source, block: u64, directory: &Path, out: &Out) -> Result<u64> {
    std::fs::create_dir_all(directory).context(directory.display())?;
    let directory = directory.canonicalize().context(directory.display())?;
    let text = directory.to_str().ok_or_else(|| {
        Failure::new(format!("{}: fio cannot read names that are not UTF-8", directory.display()))
    })?;
    let bar = Progress::of_fraction("exporting");
    let file = (out.handle()?, Path::new(&out.name));
    let done = iolog::export(source, text, block, file, |part| bar.set_fraction(part))?;
    drop(bar);
    for (number, &size) in (1..).zip(&done.sizes) {
        let path = directory.join(iolog::name(number));
        make(&path, size).context(path.display())?;
    }
    log::info!("{}: {} requests for {} files", out.name, done.requests, done.sizes.len());
    if done.syncs > 0 {
        log::info!("{}: {} syncs that belong to no open file are left out", out.name, done.syncs);
    }
    Ok(done.mapped)
}

/// Makes a file of at least `size` bytes.
fn make(path: &Path, size: u64) -> io::Result<()> {
    let file = File::options().write(true).create(true).truncate(false).open(path)?;
    let found = file.metadata()?;
    if found.is_file() && found.len() < size { file.set_len(size) } else { Ok(()) }
}
