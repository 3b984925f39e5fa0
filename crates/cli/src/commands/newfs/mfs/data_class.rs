//! The value of `--data-class`: `NAME=D0,D1,…:block=64k,stripe=1m,track=16`.

use crate::text;
use spindle::set::{Class, ClassName, Structure};

/// A class of data that is wished for.
#[derive(Clone, Debug)]
pub struct DataClass {
    name: ClassName,
    /// Its members, as those of `--data`.
    pub members: Vec<String>,
    block_bytes: Option<u32>,
    stripe_bytes: Option<u32>,
    track_blocks: Option<u32>,
}

impl DataClass {
    /// Returns the class; what is not given is as in `usual`. A track is as long as usual in bytes,
    /// but so long that all members have a part of it.
    pub fn beside(&self, usual: Structure) -> Class {
        let block_bytes = self.block_bytes.unwrap_or(usual.block_bytes);
        let stripe_bytes = self.stripe_bytes.unwrap_or(usual.stripe_bytes);
        let track_blocks = self.track_blocks.unwrap_or_else(|| {
            let around = u64::from(stripe_bytes) * self.members.len() as u64;
            let blocks = usual.track_bytes().max(around) / u64::from(block_bytes.max(1));
            u32::try_from(blocks).unwrap_or(u32::MAX).clamp(8, 8192) / 8 * 8
        });
        let structure = Structure { block_bytes, track_blocks, stripe_bytes };
        Class { name: self.name.clone(), structure }
    }
}

/// Parses the value of the option. The options of the class begin with the first `:` that one of
/// their names follows.
pub fn parse(text: &str) -> Result<DataClass, String> {
    const OPTIONS: [&str; 3] = [":block=", ":stripe=", ":track="];
    let (name, rest) = text.split_once('=').ok_or("give NAME=MEMBER,MEMBER,…")?;
    let name = name.parse().map_err(|error: spindle_vfs::Error| error.to_string())?;
    let colon = OPTIONS.iter().filter_map(|option| rest.find(option)).min();
    let (members, options) = colon.map_or((rest, ""), |at| (&rest[..at], &rest[at + 1..]));
    let members: Vec<_> = members.split(',').map(str::to_owned).collect();
    if members.iter().any(String::is_empty) {
        return Err("a member without a name".into());
    }
    let (block_bytes, stripe_bytes, track_blocks) = (None, None, None);
    let mut class = DataClass { name, members, block_bytes, stripe_bytes, track_blocks };
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("block", bytes)) => class.block_bytes = Some(text::parse_small(bytes)?),
            Some(("stripe", bytes)) => class.stripe_bytes = Some(text::parse_small(bytes)?),
            Some(("track", blocks)) => {
                let blocks = blocks.parse().map_err(|_| "track= takes a number of blocks")?;
                class.track_blocks = Some(blocks);
            }
            _ => return Err(format!("{option:?}: the options are block=, stripe= and track=")),
        }
    }
    Ok(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: members, sizes and options are distinguished, and what is not given is as usual,
    /// with tracks that reach over all members.
    #[test]
    fn a_class_is_parsed() {
        let usual = Structure { block_bytes: 4096, track_blocks: 256, stripe_bytes: 64 << 10 };
        let class = parse("archive=hdd0:2g,hdd1+hdd2:3g:block=64k,stripe=1m").unwrap();
        assert_eq!(class.members, ["hdd0:2g", "hdd1+hdd2:3g"]);
        let Class { name, structure } = class.beside(usual);
        assert_eq!(name.to_string(), "archive");
        let expected = Structure { block_bytes: 64 << 10, track_blocks: 32, stripe_bytes: 1 << 20 };
        assert_eq!(structure, expected);
        assert_eq!(parse("a=b").unwrap().beside(usual).structure, usual);
        let track = parse("a=b:track=64").unwrap().beside(usual).structure.track_blocks;
        assert_eq!(track, 64);
        for wrong in ["a", "=b", "a b=c", "a=", "a=b,", "a=b:block=x", "a=b:block=4k,size=3", "a=b:track=x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
