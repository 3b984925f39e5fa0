//! The behaviours common to all file systems: one suite, run through [`FileSystem`] on each of
//! them.
//!
//! A file system provides a [`Harness`]; [`crate::conformance_tests!`] generates one `#[test]` for
//! each behaviour. Each behaviour starts on a fresh, empty file system, stays within its
//! [`spindle_vfs::Limits`], and ends with [`Harness::check`]. Suitable images have 16 to 64 MiB and
//! at least 6,000 inodes; smaller ones are filled sooner.
//!
//! The suite does not determine the granularity of holes, inode numbers, cookies, the size of
//! directories, and the treatment of a time stamp out of range (refused, or moved to the limit).

#![allow(clippy::wildcard_imports, reason = "the behaviours are written with the helpers of `bench`")]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "all sizes here are small")]

mod attributes;
mod bench;
mod data;
mod directories;
pub(crate) mod errnos;
mod handles;
mod holes;
mod kinds;
mod links;
mod model_harness;
mod names;
#[cfg(test)]
mod planted;
mod rename;
mod space;
#[cfg(test)]
mod tests;
mod threads;
mod xattrs;

pub use bench::Bench;
pub use errnos::errno;
pub use model_harness::ModelHarness;
use spindle_vfs::FileSystem;
use std::sync::Arc;

/// A file system under test.
pub trait Harness {
    /// Returns the mounted file system.
    fn fs(&self) -> Arc<dyn FileSystem>;

    /// Unmounts and mounts again from the same device. All references become void.
    fn remount(&mut self);

    /// Unmounts, checks the whole image as `fsck -n` does, and mounts again. Returns the problems,
    /// one per line.
    fn check(&mut self) -> Vec<String>;

    /// Advances the file system's clock by at least a second. Returns false if that is impossible;
    /// time stamps are then compared less strictly.
    fn tick(&mut self) -> bool {
        false
    }

    /// Returns the features that the format does not have; the file system refuses them with
    /// [`spindle_vfs::Error::NotSupported`].
    fn lacks(&self) -> &[Feature] {
        &[]
    }
}

/// A feature that a format may not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Exchanging two names: [`spindle_vfs::RenameMode::Exchange`].
    Exchange,
    /// Any use of [`FileSystem::fallocate`].
    Fallocate,
    /// Blocks beyond the end of a file.
    KeepSize,
    /// FIFOs and sockets.
    FifosAndSockets,
    /// File flags ([`spindle_vfs::SetAttr::flags`]).
    Flags,
}

/// A behaviour: its name and its test.
pub type Behaviour = (&'static str, fn(&mut Bench<'_>));

/// Runs one behaviour, then the check.
///
/// # Panics
/// If the file system behaves differently, or the check finds a problem.
pub fn run(harness: &mut dyn Harness, behaviour: fn(&mut Bench<'_>)) {
    let mut bench = Bench::new(harness);
    behaviour(&mut bench);
    bench.check();
}

/// Runs the whole suite, each behaviour on a file system from `make`.
///
/// # Panics
/// If the file system behaves differently.
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
            names: created_names_are_found, create_refuses, lookup_refuses, unlink_and_rmdir_refuse,
                names_up_to_the_limit, names_hold_every_byte, dots_are_resolved, dots_cannot_be_changed;
            kinds: every_kind_survives, device_numbers_survive, symlinks_of_every_length,
                operations_need_the_right_kind;
            links: directory_link_counts, hard_links_share_one_inode, link_refuses, link_count_limit,
                directory_link_limit, unnamed_files_get_a_name, unnamed_files_go_with_their_last_reference,
                unlinked_file_stays_until_forgotten, remount_frees_files_without_names,
                freed_numbers_are_stale, removed_directory_takes_no_names, references_are_counted;
            handles: handles_outlive_references, handles_of_removed_files_are_stale,
                handles_of_reused_numbers_differ, handles_of_any_number;
            rename: rename_matrix, rename_refuses, rename_moves_directories, rename_never_into_itself,
                rename_onto_another_name_of_the_same_file, rename_keeps_replaced_file_alive, rename_noreplace,
                exchange_swaps_anything, exchange_refuses, whiteouts_take_the_old_name;
            data: reads_what_was_written, growth_byte_by_byte, growth_in_steps, truncate_both_ways,
                truncated_bytes_never_reappear, random_writes_match_memory, largest_file,
                data_survives_remount, fsync_and_sync_succeed, unmounted_refuses_changes;
            holes: sparse_files_read_zeros, far_offsets, far_files_free_all_space, seek_finds_data_and_holes,
                fallocate_allocates, punch_hole_frees, zero_range_zeros, fallocate_refuses;
            attributes: setattr_changes_only_given_attributes, setattr_refuses, owners_up_to_the_limit,
                times_are_kept, times_out_of_range, changes_set_times, late_writes_keep_times,
                birth_time_stays, flags_are_kept, flags_forbid_changes;
            xattrs: xattrs_are_kept, xattr_modes, xattr_sizes, xattr_names, xattrs_are_freed_with_the_file,
                xattrs_absent;
            directories: readdir_lists_everything_once, readdir_continues_from_any_cookie,
                readdir_is_stable_while_names_change, readdir_refuses, many_names,
                emptied_directory_can_be_removed, deep_directories;
            space: statfs_is_exact, a_full_disk_refuses_and_recovers, inodes_run_out_cleanly,
                a_full_disk_keeps_old_data, a_full_disk_creates_names_completely_or_not,
                failed_allocation_changes_nothing;
            threads: threads_in_their_own_directories, threads_in_one_directory, threads_moving_directories,
                threads_writing_files, threads_listing_a_changing_directory, threads_using_removed_files,
                threads_using_old_handles;
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_each {
    ({ $make:expr } $($group:ident: $($behaviour:ident),*;)*) => { $($(
        #[test]
        fn $behaviour() {
            $crate::suite::run(&mut *($make)(), $crate::suite::behaviour(stringify!($behaviour)));
        }
    )*)* };
}

macro_rules! conformance_table {
    ($($group:ident: $($behaviour:ident),*;)*) => {
        /// All behaviours of the suite.
        pub const BEHAVIOURS: &[Behaviour] = &[$($((stringify!($behaviour), $group::$behaviour)),*),*];
    };
}
conformance_list! { conformance_table, }

/// Returns the behaviour with this name.
///
/// # Panics
/// If there is no such behaviour.
#[must_use]
pub fn behaviour(name: &str) -> fn(&mut Bench<'_>) {
    BEHAVIOURS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, behaviour)| *behaviour)
        .expect("a known name")
}

/// `conformance_tests!(module, make)`: a module with one `#[test]` per behaviour. `make()` returns
/// a `Box<dyn Harness>` of a fresh, empty file system.
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
