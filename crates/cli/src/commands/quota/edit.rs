//! `spindle quota edit`

use super::names::Names;
use super::{ask, wrong};
use crate::error::Result;
use crate::image::WriteArgs;
use crate::text;
use spindle::quota::{Edit, Kind, Limits, Task};

/// Bytes of a block of a quota (`DEV_BSIZE`).
const BLOCK: u64 = 512;

/// The arguments of `spindle quota edit`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXAMPLES
    spindle quota edit disk.img -u alice --blocks 90m:100m --inodes 900:1000
    spindle quota edit disk.img -g staff --blocks 0:2g    only a hard limit
    spindle quota edit disk.img -u bob -p alice           the limits of alice
    spindle quota edit disk.img --grace 3d                days to go back below
    spindle quota edit disk.img -u alice --blocks 0:0     no limits")]
pub struct EditArgs {
    /// A user, by name or number; can be repeated
    #[arg(short = 'u', long, value_name = "USER")]
    user: Vec<String>,
    /// A group, by name or number; can be repeated
    #[arg(short = 'g', long, value_name = "GROUP")]
    group: Vec<String>,
    /// The limits of space: in blocks of 1024 bytes, or in bytes with k, m, g or t; 0 for none
    #[arg(long, value_name = "SOFT:HARD", value_parser = parse_blocks)]
    blocks: Option<Limits>,
    /// The limits of inodes; 0 for none
    #[arg(long, value_name = "SOFT:HARD", value_parser = parse_inodes)]
    inodes: Option<Limits>,
    /// How long all users, or all groups, may be over a soft limit: seconds, or with m, h, d or w
    ///
    /// For users if -u is given, for groups if -g is given, for both if neither is.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    grace: Option<i64>,
    /// The user or group whose limits the others get
    #[arg(short = 'p', long, value_name = "NAME")]
    prototype: Option<String>,
    #[command(flatten)]
    write: WriteArgs,
    /// The file, block device or partition, or the directory where it is mounted
    #[arg(value_name = "IMAGE|DIR")]
    image: String,
}

fn parse_pair(text: &str, parse: impl Fn(&str) -> Result<u64, String>) -> Result<Limits, String> {
    let (soft, hard) = text.split_once(':').ok_or("give two limits, SOFT:HARD")?;
    Ok(Limits { soft: parse(soft)?, hard: parse(hard)? })
}

fn parse_blocks(text: &str) -> Result<Limits, String> {
    parse_pair(text, |text| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let bytes = if is_number { text::parse_bytes(&format!("{text}k")) } else { text::parse_bytes(text) };
        bytes.map(|bytes| bytes.div_ceil(BLOCK))
    })
}

fn parse_inodes(text: &str) -> Result<Limits, String> {
    parse_pair(text, |text| text.parse().map_err(|_| "give a number of inodes".into()))
}

fn parse_time(text: &str) -> Result<i64, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'm') => (&text[..text.len() - 1], 60),
        Some(b'h') => (&text[..text.len() - 1], 60 * 60),
        Some(b'd') => (&text[..text.len() - 1], 24 * 60 * 60),
        Some(b'w') => (&text[..text.len() - 1], 7 * 24 * 60 * 60),
        _ => (text, 1),
    };
    let seconds = digits.parse::<u32>().ok().map(|n| i64::from(n) * unit).filter(|&n| n > 0);
    seconds.ok_or_else(|| "give a number of seconds, or with m, h, d or w".into())
}

/// Runs the command.
pub fn run(args: &EditArgs) -> Result<()> {
    let none = args.user.is_empty() && args.group.is_empty();
    let limits = args.blocks.is_some() || args.inodes.is_some() || args.prototype.is_some();
    if none && (limits || args.grace.is_none()) {
        return Err(wrong("whose limits? give -u USER or -g GROUP"));
    }
    if !limits && args.grace.is_none() {
        return Err(wrong("nothing to change; give --blocks, --inodes, -p or --grace"));
    }
    let mut edits = Vec::new();
    for (kind, words) in [(Kind::User, &args.user), (Kind::Group, &args.group)] {
        if words.is_empty() && !none {
            continue;
        }
        let names = Names::of(kind);
        let id = |word: &String| names.id(word).map_err(wrong);
        edits.push(Edit {
            kind,
            ids: if limits { words.iter().map(id).collect::<Result<_>>()? } else { Vec::new() },
            blocks: args.blocks,
            inodes: args.inodes,
            prototype: args.prototype.as_ref().map(id).transpose()?,
            grace: args.grace,
        });
    }
    edits
        .into_iter()
        .try_for_each(|edit| ask(&args.image, &Task::Edit(edit), &args.write.open_options()?).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: limits of space are in KiB unless they have a unit, and end up in blocks of 512
    /// bytes; times have units of their own; what is neither is refused.
    #[test]
    fn limits_and_times_are_read() {
        assert_eq!(parse_blocks("10:1m"), Ok(Limits { soft: 20, hard: 2048 }));
        assert_eq!(parse_inodes("0:7"), Ok(Limits { soft: 0, hard: 7 }));
        assert_eq!((parse_time("90"), parse_time("2h"), parse_time("1w")), (Ok(90), Ok(7200), Ok(604_800)));
        for text in ["10", "1:", ":1", "1:x", "-1:2"] {
            assert!(parse_blocks(text).is_err() && parse_inodes(text).is_err(), "{text}");
        }
        for text in ["", "d", "0", "-1", "3y"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
