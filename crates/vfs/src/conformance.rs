//! What every file system does: one suite of behaviours, run through [`FileSystem`] on all of them.
//!
//! A file system gives a [`Harness`]; [`crate::conformance_tests!`] makes one `#[test]` of each
//! behaviour. Each behaviour starts on a fresh, empty file system, keeps within its
//! [`crate::Limits`], and ends with [`Harness::check`]. An image of 16 to 64 MiB with 6,000 inodes
//! or more suits; smaller ones are filled sooner.
//!
//! What the suite leaves free: the grain of holes, inode numbers, cookies, the size of directories,
//! and whether a time stamp out of range is refused or moved to the edge.

#![allow(clippy::wildcard_imports, reason = "the words of `bench` are the language of the behaviours")]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "all sizes here are small")]

mod attributes;
mod bench;
mod data;
mod directories;
pub(crate) mod errnos;
mod holes;
mod kinds;
mod links;
mod names;
#[cfg(test)]
mod planted;
mod rename;
mod space;
#[cfg(test)]
pub(crate) mod tests;
mod threads;
mod xattrs;

use crate::FileSystem;
pub use bench::Bench;
use std::sync::Arc;
#[cfg(test)]
pub(crate) use tests::ModelHarness;

/// A file system under test.
pub trait Harness {
    /// Returns the mounted file system.
    fn fs(&self) -> Arc<dyn FileSystem>;

    /// Unmounts and mounts again from the same device. References that were held are void.
    fn remount(&mut self);

    /// Unmounts, checks the whole image as `fsck -n` does, and mounts again; what is wrong, line by
    /// line.
    fn check(&mut self) -> Vec<String>;

    /// Moves the file system's clock on by a second or more, if it has one that can be moved: time
    /// stamps are then compared strictly.
    fn tick(&mut self) -> bool {
        false
    }

    /// Returns what the format cannot do; a file system says so with
    /// [`crate::Error::NotSupported`].
    fn lacks(&self) -> &[Feature] {
        &[]
    }
}

/// What a format may be unable to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// [`crate::RenameMode::Exchange`].
    Exchange,
    /// [`FileSystem::fallocate`] at all.
    Fallocate,
    /// Blocks beyond the end of a file.
    KeepSize,
    /// Fifos and sockets.
    FifosAndSockets,
    /// File flags ([`crate::SetAttr::flags`]).
    Flags,
    /// Generations that tell a new inode from an old one of the same number.
    Generations,
}

/// One behaviour: its name, and the test of it.
pub type Behaviour = (&'static str, fn(&mut Bench<'_>));

/// Runs one behaviour and then the check.
///
/// # Panics
/// If the file system behaves otherwise, or the check finds something wrong.
pub fn run(harness: &mut dyn Harness, behaviour: fn(&mut Bench<'_>)) {
    let mut bench = Bench::new(harness);
    behaviour(&mut bench);
    bench.check();
}

/// Runs the whole suite, each behaviour on a file system that `make` gives.
///
/// # Panics
/// If the file system behaves otherwise.
pub fn suite(make: &dyn Fn() -> Box<dyn Harness>) {
    for (_, behaviour) in BEHAVIOURS {
        run(&mut *make(), *behaviour);
    }
}

/// Passes the list of all behaviours, after `$($before)*`, to the macro `$to`.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_list {
    ($to:path, $($before:tt)*) => {
        $to! { $($before)*
            names: a_name_is_found_where_it_was_made, create_refuses, lookup_refuses, unlink_and_rmdir_refuse,
                names_up_to_the_limit, names_hold_every_byte, dots_lead_home, dots_cannot_be_changed;
            kinds: every_kind_survives, device_numbers_survive, symlinks_of_every_length,
                operations_suit_the_kind;
            links: directory_link_counts, hard_links_share_one_inode, link_refuses, link_count_limit,
                directory_link_limit,
                unlinked_file_lives_until_forgotten, remount_frees_what_had_no_name, freed_numbers_are_stale,
                removed_directory_is_dead, lookups_add_up;
            rename: rename_matrix, rename_refuses, rename_moves_directories, rename_never_into_itself,
                rename_onto_another_name_of_the_same_file, rename_keeps_replaced_file_alive, rename_noreplace,
                exchange_swaps_anything, exchange_refuses;
            data: reads_what_was_written, growth_byte_by_byte, growth_in_steps, truncate_both_ways,
                nothing_old_shows_after_shrink_and_grow, random_writes_match_memory, largest_file,
                data_survives_remount, fsync_and_sync_succeed, unmounted_refuses_changes;
            holes: sparse_files_read_zeros, far_offsets, far_files_give_all_space_back, seek_finds_data_and_holes,
                fallocate_allocates, punch_hole_frees, zero_range_zeros, fallocate_refuses;
            attributes: setattr_changes_what_is_asked, setattr_refuses, owners_up_to_the_limit,
                times_are_kept, times_out_of_range, changes_set_times, late_data_leaves_times, birth_time_stays,
                flags_are_kept;
            xattrs: xattrs_are_kept, xattr_modes, xattr_sizes, xattr_names, xattrs_go_with_the_file,
                xattrs_absent;
            directories: readdir_lists_everything_once, readdir_goes_on_from_any_cookie,
                readdir_is_stable_while_names_change, readdir_refuses, many_names, emptied_directory_can_be_removed,
                deep_directories;
            space: statfs_is_exact, a_full_disk_refuses_and_recovers, inodes_run_out_cleanly,
                a_full_disk_keeps_old_data, a_full_disk_makes_whole_names_or_none,
                what_finds_no_space_changes_nothing;
            threads: threads_in_their_own_directories, threads_in_one_directory, threads_moving_directories,
                threads_writing_files, threads_listing_a_changing_directory, threads_holding_what_others_remove;
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_each {
    ({ $make:expr } $($group:ident: $($behaviour:ident),*;)*) => { $($(
        #[test]
        fn $behaviour() {
            $crate::conformance::run(&mut *($make)(), $crate::conformance::behaviour(stringify!($behaviour)));
        }
    )*)* };
}

macro_rules! conformance_table {
    ($($group:ident: $($behaviour:ident),*;)*) => {
        /// Every behaviour of the suite.
        pub const BEHAVIOURS: &[Behaviour] = &[$($((stringify!($behaviour), $group::$behaviour)),*),*];
    };
}
conformance_list! { conformance_table, }

/// Returns the behaviour of a name.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn behaviour(name: &str) -> fn(&mut Bench<'_>) {
    BEHAVIOURS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, behaviour)| *behaviour)
        .expect("a known name")
}

/// `conformance_tests!(module, make)`: a module with one `#[test]` per behaviour. `make` is called
/// as `make()` and gives a `Box<dyn Harness>` around a fresh, empty file system.
#[macro_export]
macro_rules! conformance_tests {
    ($module:ident, $make:expr) => {
        mod $module {
            #[allow(unused_imports)] // `make` may be a path of its own.
            use super::*;
            $crate::conformance_list! { $crate::conformance_each, { $make } }
        }
    };
}
