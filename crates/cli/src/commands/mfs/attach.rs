//! `spindle mfs attach` and `detach`: devices that are not written as classes of data of a set.

use crate::error::{Context, Failure, Result};
use crate::image;
use crate::output::Output;
use crate::text;
use spindle::partition;
use spindle::set::{self, Attach, Attached, Brought, ClassName, RawFile, Report};
use spindle_device::Spec;
use spindle_report::number;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// Arguments of `attach`.
#[derive(clap::Args, Debug)]
pub struct AttachArgs {
    /// Name of the class that the device becomes; by default the name of the device without its
    /// suffix
    #[arg(long, value_name = "NAME")]
    class: Option<ClassName>,
    /// Directory of the set that gets the files, which must not exist; by default /NAME, after the
    /// class
    #[arg(long = "as", value_name = "/PATH")]
    at: Option<OsString>,
    /// Make a file NAME of the bytes of the device, or of a range of them, instead of reading the
    /// file system on it; may be given several times
    #[arg(long, value_name = "NAME[=OFFSET+LENGTH]", value_parser = parse_raw)]
    raw: Vec<RawFile>,
    /// The class to which goes what is written over the files; it must have blocks of the same size
    /// [default: the first class that has]
    #[arg(long, value_name = "CLASS")]
    write_class: Option<ClassName>,
    /// Any member
    #[arg(value_name = "MEMBER")]
    member: String,
    /// The file, block device or partition that is not written
    #[arg(value_name = "DEVICE")]
    device: String,
}

/// Arguments of `detach`.
#[derive(clap::Args, Debug)]
pub struct DetachArgs {
    /// Copy what files have on the device to the classes to which goes what is written over them
    #[arg(long)]
    copy: bool,
    /// Any member
    #[arg(value_name = "MEMBER")]
    member: String,
    /// The read-only class
    #[arg(value_name = "CLASS")]
    class: ClassName,
}

fn parse_raw(text: &str) -> Result<RawFile, String> {
    let Some((name, range)) = text.rsplit_once('=') else {
        return Ok(RawFile { name: text.into(), range: None });
    };
    let (offset, len) = range.split_once('+').ok_or("give NAME or NAME=OFFSET+LENGTH")?;
    let range = Some((text::parse_bytes(offset)?, text::parse_bytes(len)?));
    Ok(RawFile { name: name.into(), range })
}

/// Returns the name of the class of a device: that of its file without the suffix.
fn class_of(device: &Spec) -> Result<ClassName> {
    let name = device.path.file_stem().unwrap_or_default().to_string_lossy();
    name.parse().map_err(|_| Failure::new(format!("{device}: give the class a name with --class")))
}

/// Attaches a device.
pub fn attach(args: &AttachArgs, report: &mut Report<'_>) -> Result<ExitCode> {
    let member = image::named(&args.member)?;
    let (device, brought) = if args.raw.is_empty() {
        (partition::find(&args.device)?, Brought::Tree)
    } else {
        (Spec::parse(&args.device).map_err(spindle::Error::from)?, Brought::Raw(args.raw.clone()))
    };
    let path = device.path.canonicalize().context(&args.device)?;
    let device = Spec { path, ..device };
    let class = args.class.clone().map_or_else(|| class_of(&device), Ok)?;
    let default = OsString::from(format!("/{class}"));
    let at = args.at.as_ref().unwrap_or(&default);
    let attach =
        Attach { device, class, at: at.as_bytes().to_vec(), brought, write_class: args.write_class.clone() };
    let attached = set::attach(&member, &attach, report)?;
    let mut out = Output::stdout();
    show(&mut out, &attach.class.to_string(), at, &attached)?;
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Says what was attached.
fn show(out: &mut Output, class: &str, at: &OsStr, attached: &Attached) -> Result<()> {
    let Attached { block_bytes, write_class, was_there, placed, copied } = attached;
    let at = text::printable(at.as_bytes());
    if *was_there {
        return out.line(format!("{class}: attached already, and {at} exists; its place is recorded"));
    }
    let bytes = number::bytes(placed.1);
    out.line(format!(
        "{class}: {} of {bytes} in {at}, in blocks of {block_bytes} bytes",
        text::counted(placed.0, "file")
    ))?;
    if copied.1 > 0 {
        out.line(format!("{class}: {} were copied, as they are not whole blocks", number::bytes(copied.1)))?;
    }
    out.line(match write_class {
        Some(name) => format!("{class}: what is written over the files goes to class {name}"),
        None => format!(
            "{class}: the files cannot be written, as no class that can be has blocks of {block_bytes} bytes"
        ),
    })
}

/// Detaches a class.
pub fn detach(args: &DetachArgs, report: &mut Report<'_>) -> Result<ExitCode> {
    let detached = set::detach(&image::named(&args.member)?, &args.class, args.copy, report)?;
    let mut out = Output::stdout();
    if args.copy {
        out.line(format!("{}: copied {}", args.class, number::bytes(detached.copied)))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
