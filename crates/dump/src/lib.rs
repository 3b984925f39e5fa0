//! The streams of dump(8) and restore(8) (`protocols/dumprestore.h` of the BSDs).
//!
//! A stream is a sequence of records of 1024 bytes. A header ([`Header`]) says what the records
//! behind it are: the maps of the inodes in use and of those in the dump ([`InodeMap`]), and then
//! the files by their numbers, directories first, each with its data without the holes. Names are
//! only in the directories ([`directory`]). Extended attributes stand behind the data of a file
//! ([`attributes`]).
//!
//! [`Writer`] writes one form: little-endian, with the header of FreeBSD's UFS2, which all BSDs and
//! Linux read. [`Reader`] reads all forms since 4.2BSD, in both byte orders, and Linux's for ext2.
//! Headers have a checksum and their place in the stream, data have neither. So the reader notices
//! what is missing, goes on at the next header that belongs to the stream, and says where and what
//! each damage was; but bytes that are wrong within data are not noticed. It takes no number from
//! the stream for an amount of memory.

pub mod attributes;
mod damage;
pub mod directory;
mod header;
mod map;
mod reader;
mod sum;
mod writer;

pub use damage::{Damage, Error, Result};
pub use header::{Device, Form, Header, Inode, Kind, PER_HEADER, RECORD, Stamp};
pub use map::InodeMap;
pub use reader::{Body, Event, More, Piece, Reader};
pub use writer::{BLOCK, Next, Single, Volumes, Writer};
