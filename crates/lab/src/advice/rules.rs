//! The rules: each says what to do about one thing, and why.

use super::Advice;
use super::measured::{BLOCKS, Cache, Counted, ENOUGH, Measured, WRITES, disk};
use crate::waste::Survey;
use spindle_analyze::By;
use spindle_cachesim::{Ages, Counts};
use spindle_report::number::{bytes, real, share};
use spindle_trace::Kind;

/// All rules, in the order of the report.
pub(super) const ALL: [fn(&Measured) -> Option<Advice>; 7] =
    [blocks, fragments, memory, writing, clusters, control, log];

/// Disk accesses may be worse by this part if something else is better.
const NEARLY: f64 = 0.1;
/// Files of which the sizes must be known to speak of waste.
const FILES: u64 = 100;
/// Space that fragments must save, in percent of the data, to be worth having.
const SAVED: f64 = 2.0;
/// A run that is worth a cluster, in bytes.
const CLUSTER: u64 = 64 * 1024;
/// The most that one request to a device should be, in bytes: what most controllers take.
const REQUEST: u64 = 1 << 20;
/// Sectors that a change of a name puts into the log: directory, inode, its parent's inode, map.
const SECTORS: u64 = 4;
/// Bytes of a sector.
const SECTOR: u64 = 512;
/// Bytes of a UFS2 inode, and of an entry of a directory with a name of ordinary length.
const PER_FILE: u64 = 256 + 32;

/// Returns a part of a whole in percent; 0 of nothing.
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * share(part, whole).unwrap_or(0.0)
}

/// Returns the counts with delayed writes, the best that a cache can do.
const fn delayed(counts: &Counted) -> &Counts {
    &counts[WRITES.len() - 1]
}

/// Returns the caches of the usual block, the least size of one that is enough, and what it
/// counted.
fn enough(measured: &Measured) -> Option<(&Cache, u64, &Counted)> {
    let cache = measured.caches.first()?;
    let (size, counts) = cache.enough()?;
    (counts[0].accesses() > 0).then_some((cache, *size, counts))
}

/// Returns what has to be added where memory or runs are judged: how much was mapped into memory,
/// which nothing counts.
fn besides(measured: &Measured) -> String {
    match measured.findings.today.mapped.bytes {
        0 => String::new(),
        mapped => {
            format!("; {} more, at most, were used through mapped memory, and are not counted", bytes(mapped))
        }
    }
}

/// A comparison of block sizes.
struct Blocks {
    /// The smallest that is nearly as good as the best: it wastes less, and moves less.
    chosen: u32,
    /// Bytes of the cache.
    cache: u64,
    /// Disk accesses by size of block.
    ios: Vec<(u32, u64)>,
}

fn compared(measured: &Measured) -> Option<Blocks> {
    let (_, cache, _) = enough(measured)?;
    let of = |found: &Cache| Some((found.block, disk(delayed(found.at(cache)?))));
    let ios: Vec<_> = measured.caches.iter().filter_map(of).collect();
    let least = ios.iter().map(|&(_, ios)| ios).min()?;
    let (chosen, _) = *ios.iter().find(|&&(_, ios)| real(ios) <= real(least) * (1.0 + NEARLY))?;
    Some(Blocks { chosen, cache, ios })
}

fn blocks(measured: &Measured) -> Option<Advice> {
    let Blocks { chosen: block, cache: size, ios: all } = compared(measured)?;
    let listed: Vec<_> = all.iter().map(|&(block, ios)| format!("{} {ios}", bytes(block.into()))).collect();
    Some(Advice {
        topic: "block size",
        advice: format!("blocks of {}", bytes(block.into())),
        because: format!(
            "disk accesses with a cache of {} and blocks of {}; the smallest within {:.0} % of the best",
            bytes(size),
            listed.join(", "),
            NEARLY * 100.0
        ),
    })
}

fn fragments(measured: &Measured) -> Option<Advice> {
    let survey = measured.population.as_ref().filter(|survey| survey.objects() >= FILES)?;
    let block = compared(measured)?.chosen;
    let at = BLOCKS.iter().position(|&found| found == block)?;
    let waste: Vec<f64> = survey.usage().map(|(_, usage)| survey.percent_waste(&usage)).collect();
    let (with, without) = (waste[2 * at], waste[2 * at + 1]);
    let fragment = if without - with > SAVED { block / 8 } else { block };
    let density = (survey.bytes() / survey.objects()).max(u64::from(fragment)).next_power_of_two();
    Some(Advice {
        topic: "fragments and inodes",
        advice: format!("fragments of {}, an inode for every {}", bytes(fragment.into()), bytes(density)),
        because: format!(
            "the {} files that were left take {with:.1} % more than their {} in blocks of {} with fragments of an eighth, \
             {without:.1} % without; their mean size is {}",
            survey.objects(),
            bytes(survey.bytes()),
            bytes(block.into()),
            bytes(survey.bytes() / survey.objects())
        ),
    })
}

fn memory(measured: &Measured) -> Option<Advice> {
    let (cache, size, counts) = enough(measured)?;
    let best = cache.sizes.last()?;
    Some(Advice {
        topic: "cache",
        advice: format!("{} of memory", bytes(size)),
        because: format!(
            "with delayed writes {:.1} % of {} block accesses then need the disk, and {:.1} % with all the memory that could be of use ({}); \
             it is the smallest size that saves {:.0} % of what that saves{}",
            percent(disk(delayed(counts)), counts[0].accesses()),
            counts[0].accesses(),
            percent(disk(delayed(&best.1)), counts[0].accesses()),
            bytes(cache.footprint),
            ENOUGH * 100.0,
            besides(measured)
        ),
    })
}

fn writing(measured: &Measured) -> Option<Advice> {
    let (_, size, counts) = enough(measured)?;
    if counts[0].writes == 0 {
        return None;
    }
    let least = disk(delayed(counts));
    // The safest first.
    let nearly = |counts: &Counts| real(disk(counts)) <= real(least) * (1.0 + NEARLY);
    let chosen = counts.iter().position(nearly)?;
    let listed: Vec<_> =
        WRITES.iter().zip(counts).map(|(write, counts)| format!("{write} {}", disk(counts))).collect();
    let risk = measured.dirty.get(chosen).filter(|dirty| !dirty.is_empty()).map(|dirty| {
        let over = |seconds| Ages::OVER.iter().position(|&s| s == seconds).map_or(0.0, |which| 100.0 * dirty.over(which));
        format!("; {:.1} % of modified blocks are then at risk for longer than 30 s, {:.1} % for longer than 20 min", over(30), over(1200))
    });
    Some(Advice {
        topic: "write policy",
        advice: WRITES[chosen].to_string(),
        because: format!(
            "disk accesses with {}: {}; the safest within {:.0} % of the best{}",
            bytes(size),
            listed.join(", "),
            NEARLY * 100.0,
            risk.unwrap_or_default()
        ),
    })
}

fn clusters(measured: &Measured) -> Option<Advice> {
    let runs = &measured.findings.patterns.runs;
    let long = 1.0 - runs.share_below(CLUSTER, By::Weight)?;
    let middle = runs.quantile(0.5, By::Weight)?;
    let advice = if long < 0.2 {
        "clustering brings little here".into()
    } else {
        format!("clusters of {}", bytes(middle.next_power_of_two().clamp(CLUSTER, REQUEST)))
    };
    Some(Advice {
        topic: "clustering",
        advice,
        because: format!(
            "{:.0} % of all bytes are moved in runs of {} or more, half of them in runs of {} or more{}",
            100.0 * long,
            bytes(CLUSTER),
            bytes(middle),
            besides(measured)
        ),
    })
}

fn control(measured: &Measured) -> Option<Advice> {
    let (_, size, counts) = enough(measured)?;
    let seconds = measured.findings.totals.seconds();
    if seconds <= 0.0 {
        return None;
    }
    let data = disk(delayed(counts));
    let names = measured.names.changes;
    let advice = if names > data {
        let files = measured.population.as_ref().map_or(0, Survey::objects);
        let size = (files * PER_FILE).next_power_of_two();
        format!(
            "a device of its own would take more than half of the work; {} hold it for {files} files",
            bytes(size)
        )
    } else {
        "no device of its own: data is what the disk is busy with".into()
    };
    Some(Advice {
        topic: "control data",
        advice,
        because: format!(
            "{names} changes of names ({:.2} per second), and {data} disk accesses for data with a cache of {}",
            real(names) / seconds,
            bytes(size)
        ),
    })
}

fn log(measured: &Measured) -> Option<Advice> {
    let totals = &measured.findings.totals;
    let (syncs, closes) = (totals.count(Kind::Sync), totals.count(Kind::Close));
    let seconds = totals.seconds();
    if seconds <= 0.0 || measured.names.changes + syncs == 0 {
        return None;
    }
    let size = (measured.names.most * SECTORS * SECTOR).next_power_of_two().max(1 << 20);
    let waits = percent(measured.findings.today.synced, closes);
    let device = if waits >= 5.0 {
        ", on a fast device of its own: programs wait for it"
    } else {
        ", beside the data"
    };
    Some(Advice {
        topic: "log",
        advice: format!("{}{device}", bytes(size)),
        because: format!(
            "at most {} changes of names within 30 s, each of about {SECTORS} sectors; {syncs} calls of fsync ({:.2} per second), in \
             {waits:.1} % of all accesses",
            measured.names.most,
            real(syncs) / seconds
        ),
    })
}
