//! Runs a workload on a set one of whose members has faults that it reports, and checks it
//! meanwhile.
//!
//! What may fail follows from what the set needs the member for ([`Standing`]). A call that failed
//! is tried again until the fault has passed; it must then succeed, unless a write has failed of
//! which there is no other copy: from then on every change must be refused.

use super::healthy::{Healthy, act, act_at};
use super::rig::{Rig, Standing, mount};
use super::subject::{Act, SetImage};
use crate::crash::images;
use crate::crash::operation::{Driver, Op, Sync};
use crate::crash::oracle::Tree;
use crate::faults::device::FaultyDevice;
use crate::faults::healthy_run::Unread;
use crate::faults::plan::{Plan, RequestKind};
use crate::faults::running::FaultyRun;
use spindle_mfs::{Mfs, Set};
use spindle_tree::Remount;
use spindle_vfs::{Error, FileSystem};
use std::cell::Cell;
use std::fmt;

/// Number of steps that are tried after the first that is refused for good.
const STEPS_AFTER: usize = 5;

/// Most times that a tree is read: each may report a write that has failed.
const MOST_READS: usize = 100;

/// A kind of call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Opening the set, which needs all storage.
    Open,
    /// Changing its members.
    Change,
    /// Using its files, which can be done without log storage.
    Use,
}

/// How far a session got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    /// Number of promises that were given.
    pub(super) promises: usize,
    /// The last version that may be found.
    pub(super) version: usize,
    /// True if nothing was changed after the last time that everything was made durable.
    pub(super) is_synced: bool,
    /// True if it was unmounted.
    pub(super) is_unmounted: bool,
    /// Whether metadata could not be read until it was unmounted, or until that failed.
    pub(super) unread: Unread,
}

/// A session with a fault.
pub(super) struct Session<'a> {
    image: &'a SetImage,
    rig: &'a Rig,
    faulty: usize,
    plan: &'a Plan,
    /// True after a call was refused because a write or flush had failed before.
    latched: Cell<bool>,
    /// True after a change of the members has failed.
    unsettled: Cell<bool>,
    /// What the set needs the member for.
    standing: Cell<Standing>,
    /// True if the set has ever needed the member.
    was_needed: Cell<bool>,
    /// True if each call is printed.
    verbose: bool,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        image: &'a SetImage,
        rig: &'a Rig,
        (faulty, plan): (usize, &'a Plan),
        standing: Standing,
        verbose: bool,
    ) -> Self {
        Self {
            image,
            rig,
            faulty,
            plan,
            latched: false.into(),
            unsettled: false.into(),
            standing: standing.into(),
            was_needed: (standing == Standing::Needed).into(),
            verbose,
        }
    }

    /// Returns the device that has the faults.
    fn device(&self) -> &FaultyDevice {
        &self.rig.members[self.faulty]
    }

    fn errors_reported(&self) -> u64 {
        self.device().counts().errors_reported
    }

    /// Returns true if the fault may explain an error of a call.
    fn explains(&self, error: &Error, kind: Kind) -> bool {
        let counts = self.device().counts();
        let needed = match self.standing.get() {
            Standing::Expendable => false,
            // A scrub flushes log storage, too.
            Standing::OnlyLog => {
                let scrubs = kind == Kind::Change && self.image.act == Act::Scrub;
                kind == Kind::Open || scrubs || self.unsettled.get()
            }
            Standing::Needed => true,
        };
        let is_of_device = matches!(error, Error::Device(_) | Error::ReadOnly)
            || (kind == Kind::Open && matches!(error, Error::Unsupported { .. }));
        let is_latched = matches!(error, Error::Device(spindle_device::Error::Latched { .. }));
        needed && counts.injected > 0 && is_of_device && (!is_latched || counts.errors_reported > 0)
    }

    /// Repeats a call until it succeeds or is refused for good. Returns none if the device does not
    /// let it.
    fn call<T>(
        &self,
        what: &dyn fmt::Display,
        kind: Kind,
        mut call: impl FnMut() -> spindle_vfs::Result<T>,
    ) -> Result<Result<T, Error>, String> {
        let mut tries = self.plan.tries();
        loop {
            tries -= 1;
            let (passed, before) = (self.device().fault_has_passed(), self.errors_reported());
            let result = call();
            if self.verbose {
                let outcome = result.as_ref().err().map_or("done".into(), ToString::to_string);
                println!("{what}: {outcome}, after {:?}", self.device().counts());
            }
            let error = match result {
                Ok(value) => return Ok(Ok(value)),
                Err(error) if self.explains(&error, kind) => error,
                Err(other) => return Ok(Err(other)),
            };
            let is_latched = matches!(error, Error::Device(spindle_device::Error::Latched { .. }));
            self.latched.set(self.latched.get() || (is_latched && kind == Kind::Use));
            if is_latched || tries == 0 {
                return Ok(Err(error));
            }
            // What failed for the first time after the fault has passed is what a write before had
            // been refused for; then the next try is refused for good. The error of a write may be
            // reported only now.
            if passed && tries + 1 < self.plan.tries() && self.errors_reported() == before {
                return Err(format!("{what}: {error}, although the device works again"));
            }
        }
    }

    /// Opens and mounts the set. Returns none if the device does not let it.
    fn open(&self) -> Result<Option<(Set, Mfs)>, String> {
        let clock = images::clock();
        let opened = self.call(&"open", Kind::Open, || {
            let set = self.rig.open_set()?;
            let fs = mount(&set, clock.clone(), self.image.mounting)?;
            if fs.read_only() {
                let reasons: Vec<_> = fs.read_only_reasons().iter().map(|o| o.reason.clone()).collect();
                return Err(Error::unsupported(reasons.join("; "), "use a healthy device"));
            }
            Ok((set, fs))
        })?;
        match opened {
            Ok((set, fs)) => {
                self.device().forgive();
                self.note_standing(&set);
                Ok(Some((set, fs)))
            }
            Err(error) if self.explains(&error, Kind::Open) => Ok(None),
            Err(error) => Err(format!("open: {error}")),
        }
    }

    fn note_standing(&self, set: &Set) {
        let standing = Standing::of(&set.label_now(), self.image.id(self.faulty));
        self.was_needed.set(self.was_needed.get() || standing == Standing::Needed);
        self.standing.set(standing);
    }

    /// Returns true if the fault makes reads fail.
    fn injects_reads(&self) -> bool {
        matches!(self.plan.fault.affects(), RequestKind::Reads | RequestKind::All)
    }

    /// Mounts, reads everything and unmounts. What was promised before is promised still.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub(super) fn recover(&self, expected: &Healthy) -> Result<Reached, String> {
        let reached = |unread| Reached {
            promises: *expected.promises.last().unwrap_or(&0),
            version: expected.history.last(),
            is_synced: false,
            is_unmounted: false,
            unread,
        };
        let Some((set, fs)) = self.open()? else { return Ok(reached(Unread::Nothing)) };
        let mut read = Err(String::new());
        for _ in 0..self.plan.tries() {
            read = Tree::of(&fs, std::iter::empty());
            if read.is_ok() {
                break;
            }
        }
        match read {
            Err(error) if !self.injects_reads() || self.standing.get() != Standing::Needed => {
                return Err(format!("reading: {error}"));
            }
            _ => {}
        }
        self.unmount(&set, &fs)?;
        Ok(reached(Unread::of(&fs, false)))
    }

    /// Runs the workload as far as it gets, and then unmounts if `unmount` is true.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub(super) fn run(&self, expected: &Healthy, unmount: bool) -> Result<Reached, String> {
        let mut reached = Reached {
            promises: expected.promises[0],
            version: 0,
            is_synced: true,
            is_unmounted: false,
            unread: Unread::Nothing,
        };
        let Some((set, fs)) = self.open()? else { return Ok(reached) };
        let clock = images::clock();
        let mut driver = Driver::new(&fs);
        let (mut after, mut whole, mut changed) = (0, true, false);
        for (n, step) in expected.workload.steps.iter().enumerate() {
            clock.advance(1);
            if n == act_at(&expected.workload) {
                self.change_members(&set)?;
            }
            let latched = self.latched.get();
            let changes = FaultyRun::changes(&driver, &step.op);
            let done = self.step(&mut driver, &set, expected, n, changes)?;
            changed |= done && changes;
            reached.is_synced &= !changes;
            if !latched {
                reached.version = n + 1;
            }
            // A step that the model has not done either says nothing.
            let expects = expected.written[n].is_some();
            whole &= done || !expects;
            if !(whole || self.latched.get()) {
                break;
            }
            if expects && step.sync != Sync::None {
                let kept = self.sync(&driver, &set, &step.op, step.sync, changed)?;
                if !latched && done && kept {
                    reached.promises = expected.promises[n + 1];
                    // The file system makes everything durable at once.
                    reached.is_synced = true;
                }
                whole &= kept;
            }
            after += usize::from(self.latched.get());
            if after > STEPS_AFTER || !(whole || self.latched.get()) {
                break;
            }
        }
        self.compare(&fs, &driver, expected, whole)?;
        if unmount {
            reached.is_unmounted = self.unmount(&set, &fs)?;
            reached.unread = Unread::of(&fs, changed && reached.is_unmounted);
            if reached.is_unmounted && whole {
                reached.promises = expected.history.promises().len();
            }
        }
        Ok(reached)
    }

    /// Compares what is read now with what must be there, if nothing was refused; otherwise only
    /// reads it.
    fn compare(&self, fs: &Mfs, driver: &Driver<'_>, expected: &Healthy, whole: bool) -> Result<(), String> {
        let mut found = driver.tree();
        // A read of what was being written reports that the write has failed; the next one finds
        // what the device has.
        let whole = whole && found.is_ok();
        for _ in 1..MOST_READS {
            found = found.or_else(|_| Tree::after_failure(fs, driver.held()));
        }
        match found {
            Ok(tree) if whole => match expected.history.differs(&tree, expected.history.last(), None) {
                Some(difference) => Err(format!("at the end other than expected: {difference}")),
                None => Ok(()),
            },
            Ok(_) => Ok(()),
            Err(_) if self.standing.get() == Standing::Needed && self.injects_reads() => Ok(()),
            Err(error) => Err(format!("reading at the end: {error}")),
        }
    }

    /// Changes the members; the fault may prevent it.
    fn change_members(&self, set: &Set) -> Result<(), String> {
        // What becomes a copy, or the only one, must work.
        let must_work = match self.image.act {
            Act::Remove(member) => member != self.faulty,
            _ => self.faulty >= self.image.ids.len(),
        };
        let before = self.standing.get();
        let changed = self.call(&"changing members", Kind::Change, || act(self.image, self.rig, set))?;
        self.note_standing(set);
        match changed {
            Ok(()) => Ok(()),
            Err(Error::Device(_) | Error::Unsupported { .. })
                if self.device().counts().injected > 0
                    && (must_work || [before, self.standing.get()] != [Standing::Expendable; 2]) =>
            {
                // Some members may have a label that was taken back: nothing is acknowledged before
                // all have another.
                self.unsettled.set(true);
                Ok(())
            }
            // The only copy that is left cannot be removed.
            Err(Error::Unsupported { .. })
                if !Standing::is_whole(&set.label_now(), self.image.id(self.faulty)) =>
            {
                Ok(())
            }
            Err(error) => Err(format!("changing members: {error}")),
        }
    }

    /// Runs operation `n`, which changes something if `changes`. Returns false if the device did
    /// not let it, or the healthy set did not.
    fn step(
        &self,
        driver: &mut Driver<'_>,
        set: &Set,
        expected: &Healthy,
        n: usize,
        changes: bool,
    ) -> Result<bool, String> {
        let op = &expected.workload.steps[n].op;
        let latched = self.latched.get();
        let serial = n as u64;
        let result = self.call(op, Kind::Use, || {
            let most = expected.written[n].unwrap_or(usize::MAX);
            let done = driver.apply(op, serial, most)?;
            if expected.written[n].is_some() {
                driver.write_on(op, serial, done..most)?;
            }
            Ok(())
        })?;
        let refused = match result {
            Ok(()) if latched && changes => return Err(format!("{op}: done after a write had failed")),
            Ok(()) if expected.written[n].is_none() => return Err(format!("{op}: done, and refused before")),
            Ok(()) => return Ok(true),
            Err(error) => error,
        };
        let acceptable = match refused {
            ref error if self.explains(error, Kind::Use) => true,
            // Steps that were refused explain what is missing.
            ref error if latched => !matches!(error, Error::Corrupt { .. }),
            Error::Corrupt { .. } | Error::Device(_) => false,
            // Orphans keep their space as long as a read fails that is needed to free them.
            Error::NoSpace => {
                expected.written[n].is_none()
                    || (self.standing.get() == Standing::Needed && !self.device().fault_has_passed())
            }
            _ => expected.written[n].is_none(),
        };
        self.note_standing(set);
        if acceptable { Ok(false) } else { Err(format!("{op}: {refused}")) }
    }

    /// Makes durable what was `changed` before, if anything. Returns false if the device did not
    /// let it.
    fn sync(
        &self,
        driver: &Driver<'_>,
        set: &Set,
        op: &Op,
        sync: Sync,
        changed: bool,
    ) -> Result<bool, String> {
        let latched = self.latched.get();
        let what = format!("{sync:?} after {op}");
        match self.call(&what, Kind::Use, || driver.sync(op, sync))? {
            Ok(()) if latched && changed => Err(format!("{what}: acknowledged after a write had failed")),
            Ok(()) => self.check_copies(set, &what).map(|()| true),
            Err(error) if self.explains(&error, Kind::Use) => Ok(false),
            Err(error) if latched && !matches!(error, Error::Corrupt { .. }) => Ok(false),
            Err(error) => Err(format!("{what}: {error}")),
        }
    }

    /// Returns true if the unmount succeeded.
    fn unmount(&self, set: &Set, fs: &Mfs) -> Result<bool, String> {
        let latched = self.latched.get();
        let unmounted = self.call(&"unmount", Kind::Use, || fs.unmount())?;
        let explained = self.latched.get() || (self.was_needed.get() && self.injects_reads());
        if fs.is_damaged() && !explained {
            return Err("marked damaged, although another copy can be read".into());
        }
        match unmounted {
            Ok(()) if latched => Err("an unmount succeeded after a write had failed".into()),
            Ok(()) => self.check_copies(set, "unmount").map(|()| true),
            Err(error) if self.explains(&error, Kind::Use) => Ok(false),
            Err(error) if latched && !matches!(error, Error::Corrupt { .. }) => Ok(false),
            Err(error) => Err(format!("unmount: {error}")),
        }
    }

    /// Checks, when something was acknowledged, that no area that counts as whole may have lost a
    /// write.
    fn check_copies(&self, set: &Set, when: &str) -> Result<(), String> {
        let label = set.label_now();
        self.note_standing(set);
        let device = self.device();
        let own = label.areas.iter().filter(|area| area.member_id == self.image.id(self.faulty));
        for area in own.filter(|area| !area.lost) {
            if device.may_have_lost(&(area.offset..area.offset + area.len)) {
                return Err(format!(
                    "{when}: acknowledged, although copy {} of {} storage {} counts as whole and may miss a \
                     write",
                    area.copy, area.role, area.index
                ));
            }
        }
        Ok(())
    }
}
