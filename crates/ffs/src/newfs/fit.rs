//! The smallest file system that has space for certain contents.

use super::parameters::{Format, MIN_DENSITY, ParameterError, Parameters, Resolved, Result};
use super::plan::Plan;

/// What a file system must have space for. Block and fragment size are those that the space was
/// measured with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Bytes that the contents take in fragments, without the directories of a new file system.
    pub bytes: u64,
    /// Inodes that the contents take.
    pub inodes: u64,
    /// Bytes that must stay free beyond the reserve (`minfree`).
    pub free_bytes: u64,
    /// Inodes that must stay free. By default, as many as the density of newfs gives to the
    /// reserve and `free_bytes`.
    pub free_inodes: Option<u64>,
}

impl Need {
    /// Returns the bytes that a file system of this plan must have free: reserve and more.
    fn free_in(&self, plan: &Plan) -> u64 {
        let layout = &plan.layout;
        let reserve = (layout.fs_dsize * u64::from(plan.minfree())).div_ceil(100) << layout.fs_fshift;
        reserve.saturating_add(self.free_bytes)
    }

    /// Returns the inodes that a file system of this plan must have, for a density of newfs.
    fn inodes_in(&self, plan: &Plan, density: u32) -> u64 {
        let free = self.free_inodes.unwrap_or_else(|| self.free_in(plan) / u64::from(density));
        self.inodes.saturating_add(free)
    }

    /// Returns true if a new file system of this plan has the space, by its counts. Whether every
    /// file then finds its blocks depends on their sizes.
    fn met_by(&self, plan: &Plan, density: u32) -> bool {
        let totals = plan.totals();
        let count = |n: i64| u64::try_from(n).unwrap_or(0);
        let layout = &plan.layout;
        let frags = count(totals.cs_nbfree) * u64::from(layout.fs_frag) + count(totals.cs_nffree);
        self.bytes.saturating_add(self.free_in(plan)) <= frags << layout.fs_fshift
            && self.inodes_in(plan, density) <= count(totals.cs_nifree)
    }
}

/// Returns the plan of the smallest file system of at least `at_least` bytes that has space for
/// `need` by its counts. The size in `parameters` is not used. If no density is asked for, one is
/// chosen with which the inodes suffice.
///
/// More space can hold less where one more group begins. So sizes that are smaller by up to the
/// structures of a group are looked at one by one.
///
/// # Errors
/// [`ParameterError`] if the parameters are not possible, whatever the size.
pub fn fit(parameters: &Parameters, need: &Need, at_least: u64) -> Result<Plan> {
    let unit = u64::from(parameters.resolve()?.fsize);
    let attempt = |frags: u64| plan_of(parameters, need, frags.saturating_mul(unit));
    let least = at_least.max(need.bytes).div_ceil(unit).max(1);
    let most = u64::MAX / 4 / unit;
    let (mut low, mut high) = (least, least);
    let mut best = loop {
        match attempt(high) {
            Ok(Some(plan)) => break plan,
            Err(error) if error.parameter != "size" || high > most => return Err(error),
            _ if high > most => {
                let allowed = "less data, or larger blocks";
                return Err(ParameterError::new("size", format_args!("{high} fragments"), allowed));
            }
            _ => {}
        }
        low = high + 1;
        high += (high / 8).max(8);
    };
    while low < high {
        let middle = low + (high - low) / 2;
        if let Ok(Some(plan)) = attempt(middle) {
            (best, high) = (plan, middle);
        } else {
            low = middle + 1;
        }
    }
    let structures = best.layout.fs_dblkno + 2 * best.layout.fs_frag;
    let mut below = high.saturating_sub(structures.into()).max(least)..high;
    Ok(below.find_map(|frags| attempt(frags).ok().flatten()).unwrap_or(best))
}

/// Returns a plan of `size_bytes` that has space for `need`, if there is one: with the density of
/// newfs if that does, otherwise with one that gives about as many inodes as are needed.
fn plan_of(parameters: &Parameters, need: &Need, size_bytes: u64) -> Result<Option<Plan>> {
    let parameters = Parameters { size_bytes, ..parameters.clone() };
    let usual = parameters.resolve()?;
    let plan = Plan::new(&parameters);
    if let Ok(plan) = &plan
        && (parameters.density.is_some() || need.met_by(plan, usual.density))
    {
        return Ok(need.met_by(plan, usual.density).then(|| plan.clone()));
    }
    let inodes = plan.as_ref().map_or(need.inodes, |plan| need.inodes_in(plan, usual.density));
    for density in densities(&usual, size_bytes, inodes) {
        let density = u32::try_from(density.max(MIN_DENSITY.into())).ok();
        if let Ok(plan) = Plan::new(&Parameters { density, ..parameters.clone() })
            && need.met_by(&plan, usual.density)
        {
            return Ok(Some(plan));
        }
    }
    plan.map(|_| None)
}

/// Returns the densities that may leave most space in a file system with so many inodes.
fn densities(usual: &Resolved, size_bytes: u64, inodes: u64) -> Vec<u64> {
    let fsize = u64::from(usual.fsize);
    let inode_bytes = if usual.format == Format::Ufs2 { 256 } else { 128 };
    let inopb = u64::from(usual.bsize) / inode_bytes;
    // The maps of a group's fragments have a block.
    let most = 6 * u64::from(usual.bsize) / inopb * fsize;
    let per_inode = size_bytes / inodes.max(1);
    let mut densities = if per_inode >= fsize {
        vec![per_inode.next_multiple_of(fsize), per_inode / fsize * fsize]
    } else {
        // Several inodes to a fragment.
        let per_frag = fsize.div_ceil(per_inode.max(1));
        vec![fsize / (per_frag - 1), fsize / per_frag]
    };
    // A group has at least one block of inodes: with that and no more, there are fewer groups.
    densities.extend((1..=3).map(|groups| (size_bytes / fsize).div_ceil(groups * inopb) * fsize));
    for density in &mut densities {
        *density = (*density).min(most);
    }
    densities.sort_unstable();
    densities.dedup();
    densities
}
