//! Merges traces into one: those of several hosts, or the parts of one recording.
//!
//! The one idea: whether two numbers of opens, files and processes mean the same depends only on
//! where the traces come from ([`Relation`]). Numbers of different hosts are kept apart by the
//! number of the host in their upper bits, so nothing has to be remembered of them. Numbers of
//! parts stay as they are, and an open that a later part has as open from before goes on where an
//! earlier part has it.
//!
//! Events come in the order of their times, those of one trace in its order. Memory holds a batch
//! of each trace, and of parts the numbers of the open files.

use crate::event::Translation;
use crate::{Batch, Error, Event, FileId, Flags, Info, Kind, Result, Source};
use foldhash::fast::RandomState;
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap};

/// Where the traces come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Each from a host of its own.
    Hosts,
    /// All from one recording, of which each has a part.
    Parts,
}

/// Maximum number of hosts: what fits beside a process number.
pub const MOST_HOSTS: usize = 1 << (u32::BITS - PROCESS_BITS);
/// Number of bits of process numbers, as on Linux.
const PROCESS_BITS: u32 = 22;
/// Number of bits of device numbers and of numbers of opens, which leaves ten bits for the host
/// and more.
const WIDE_BITS: u32 = 48;
/// A trace that begins earlier than a year after 1970 counts from its own beginning, in ns.
const YEAR: i64 = 365 * 86_400 * 1_000_000_000;
/// Number of events returned at a time.
const BATCH: usize = 1 << 12;

/// One of the traces.
struct Input {
    name: String,
    source: Box<dyn Source>,
    batch: Batch,
    /// Number of events of the batch that are merged.
    at: usize,
    /// Largest time so far, in ns since 1970.
    time: i64,
    words: Translation,
}

impl Input {
    /// Returns the time at which the next event comes, in ns since 1970; none at the end. One that
    /// is late in its trace is late here, too.
    fn due(&mut self) -> Result<Option<i64>> {
        if self.at == self.batch.events.len() {
            self.at = 0;
            self.words.clear();
            if !self.source.next(&mut self.batch)? {
                self.batch.clear();
                return Ok(None);
            }
        }
        self.time = self.time.max(self.batch.events[self.at].time);
        Ok(Some(self.time))
    }
}

/// Traces that are merged.
pub struct Merged {
    relation: Relation,
    inputs: Vec<Input>,
    /// When the next event of each trace comes, and the number of the trace.
    due: BinaryHeap<Reverse<(i64, usize)>>,
    /// Of parts, the open files with the numbers of the traces that began them.
    opens: HashMap<u64, usize, RandomState>,
}

impl std::fmt::Debug for Merged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Merged").field("relation", &self.relation).finish_non_exhaustive()
    }
}

impl Merged {
    /// Merges traces that have all columns; errors call them by these names.
    ///
    /// # Errors
    /// Those of the sources; [`Error::Refused`] if there are too many, if only some count their
    /// times from 1970, or if parts were not made by the same program.
    pub fn new(traces: Vec<(String, Box<dyn Source>)>, relation: Relation) -> Result<Self> {
        if relation == Relation::Hosts && traces.len() > MOST_HOSTS {
            let what = format!("{} traces: at most {MOST_HOSTS} can be merged", traces.len());
            return Err(Error::Refused(what));
        }
        let mut merged =
            Self { relation, inputs: Vec::new(), due: BinaryHeap::new(), opens: HashMap::default() };
        let mut first: Option<(i64, String)> = None;
        for (number, (name, source)) in traces.into_iter().enumerate() {
            let (batch, words) = (Batch::default(), Translation::default());
            let mut input = Input { name, source, batch, at: 0, time: i64::MIN, words };
            if let Some(time) = input.due()? {
                merged.due.push(Reverse((time, number)));
                let (earlier, other) = first.get_or_insert_with(|| (time, input.name.clone()));
                if (*earlier < YEAR) != (time < YEAR) {
                    let from = |time: i64| if time < YEAR { "its own beginning" } else { "1970" };
                    return Err(Error::Refused(format!(
                        "{}: its times count from {}, and those of {other} from {}; their events have no common order",
                        input.name,
                        from(time),
                        from(*earlier)
                    )));
                }
            }
            merged.inputs.push(input);
        }
        if relation == Relation::Parts {
            merged.check_sources()?;
        }
        Ok(merged)
    }

    /// Refuses parts that different programs have made.
    fn check_sources(&self) -> Result<()> {
        let mut made = self.inputs.iter().map(|input| (&input.name, input.source.info().source));
        let Some((first, one)) = made.next() else { return Ok(()) };
        made.find(|(_, source)| *source != one).map_or(Ok(()), |(name, other)| {
            Err(Error::Refused(format!(
                "{name}: it was made by {other:?}, and {first} by {one:?}, so they are not parts of one recording"
            )))
        })
    }

    /// Returns true if an event of a part belongs into the whole; an open from before does not, if
    /// an earlier part has it.
    fn joins(&mut self, event: &Event, number: usize) -> Result<bool> {
        match event.kind {
            _ if event.open == 0 => {}
            Kind::Open | Kind::Create => match self.opens.entry(event.open) {
                Entry::Vacant(entry) => drop(entry.insert(number)),
                Entry::Occupied(_) if event.flags.has(Flags::BEFORE) => return Ok(false),
                Entry::Occupied(mut entry) => {
                    let other = entry.insert(number);
                    if other != number {
                        return Err(Error::Refused(format!(
                            "{}: open {} begins at {} ns while that of {} lasts, so they are not parts of one \
                             recording, or have the same events",
                            self.inputs[number].name, event.open, event.time, self.inputs[other].name
                        )));
                    }
                }
            },
            Kind::Close => drop(self.opens.remove(&event.open)),
            _ => {}
        }
        Ok(true)
    }
}

/// Returns a number of at most `bits` bits with that of the host above it; 0, which means none,
/// stays 0.
fn apart(number: u64, bits: u32, host: usize, what: &str, name: &str) -> Result<u64> {
    if number >> bits != 0 {
        return Err(Error::Refused(format!(
            "{name}: {what} {number} is too large to be kept apart from those of other hosts; they have at most \
             {bits} bits"
        )));
    }
    Ok(if number == 0 { 0 } else { number | (host as u64) << bits })
}

/// Returns an event of a host as it is in the whole.
fn of_host(event: Event, host: usize, name: &str) -> Result<Event> {
    let open = apart(event.open, WIDE_BITS, host, "the open", name)?;
    let process = apart(event.process.into(), PROCESS_BITS, host, "the process", name)?;
    let process = u32::try_from(process).expect("hosts are fewer than fit");
    // A file without numbers is unknown, unless it is a disk, which is read or written.
    let is_known = event.file != FileId::default() || event.kind.ends_run();
    let mut file = event.file;
    if is_known {
        apart(file.device, WIDE_BITS, host, "the device", name)?;
        file.device |= (host as u64) << WIDE_BITS;
    }
    Ok(Event { open, file, process, ..event })
}

impl Source for Merged {
    fn info(&self) -> Info {
        let infos: Vec<_> = self.inputs.iter().map(|input| (&input.name, input.source.info())).collect();
        let mut whole = Info::default();
        for (host, (name, info)) in infos.into_iter().enumerate() {
            whole.lost = whole.lost.saturating_add(info.lost);
            whole.latencies.merge(&info.latencies);
            if self.relation == Relation::Parts {
                whole.source = info.source;
                let new: Vec<_> = info.notes.into_iter().filter(|note| !whole.notes.contains(note)).collect();
                whole.notes.extend(new);
                continue;
            }
            whole.source = concat!("spindle ", env!("CARGO_PKG_VERSION"), ", trace merge").into();
            whole.notes.push(format!(
                "host {host} is {name}, made by {}: its devices and opens are those from {} on, and its processes \
                 those from {} on",
                if info.source.is_empty() { "an unknown program" } else { &info.source },
                (host as u64) << WIDE_BITS,
                (host as u64) << PROCESS_BITS
            ));
            whole.notes.extend(info.notes.iter().map(|note| format!("{name}: {note}")));
        }
        whole
    }

    fn is_finished(&self) -> bool {
        self.inputs.iter().all(|input| input.source.is_finished())
    }

    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        batch.clear();
        self.inputs.iter_mut().for_each(|input| input.words.clear());
        while batch.events.len() < BATCH
            && let Some(Reverse((_, number))) = self.due.pop()
        {
            let next = self.due.peek().map_or((i64::MAX, usize::MAX), |Reverse(next)| *next);
            loop {
                let Input { batch: given, at, .. } = &self.inputs[number];
                let event = given.events[*at];
                let joins = self.relation == Relation::Hosts || self.joins(&event, number)?;
                let Input { name, batch: given, at, words, .. } = &mut self.inputs[number];
                if joins {
                    let event = words.event(&event, &given.names, &mut batch.names);
                    batch.events.push(match self.relation {
                        Relation::Hosts => of_host(event, number, name)?,
                        Relation::Parts => event,
                    });
                }
                *at += 1;
                let Some(due) = self.inputs[number].due()? else { break };
                if (due, number) > next || batch.events.len() >= BATCH {
                    self.due.push(Reverse((due, number)));
                    break;
                }
            }
        }
        Ok(!batch.events.is_empty())
    }

    fn progress(&self) -> Option<f64> {
        let parts: Option<Vec<_>> = self.inputs.iter().map(|input| input.source.progress()).collect();
        // A progress bar does not need exact numbers.
        #[allow(clippy::cast_precision_loss)]
        parts.map(|parts| parts.iter().sum::<f64>() / parts.len().max(1) as f64)
    }
}

#[cfg(test)]
mod tests;
