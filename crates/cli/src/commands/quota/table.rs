//! The table of `spindle quota report`.

use super::names::Names;
use crate::error::Result;
use crate::output::Output;
use spindle::newfs::clock;
use spindle::quota::{Account, Kind, Row, Sheet};

const DAY: i64 = 24 * 60 * 60;

/// Prints a table for each sheet, as `repquota` does.
pub fn show(out: &mut Output, image: &str, sheets: &[Sheet]) -> Result<()> {
    let now = clock(None).now().secs;
    for (n, sheet) in sheets.iter().enumerate() {
        if n > 0 {
            out.line("")?;
        }
        let state = match sheet {
            Sheet { enforced: true, .. } => "enforced",
            Sheet { has_file: false, .. } => "no quota file",
            _ => "not enforced",
        };
        out.line(format!("*** Report for {} quotas on {image} ({state})", sheet.kind.word()))?;
        let (blocks, inodes) = (period(sheet.grace.blocks), period(sheet.grace.inodes));
        out.line(format!("Block grace time: {blocks}; inode grace time: {inodes}"))?;
        let title = match sheet.kind {
            Kind::User => "User",
            Kind::Group => "Group",
        };
        let names = Names::of(sheet.kind);
        let mut rows = vec![["", "", "Blocks", "", "", "", "Files", "", "", ""].map(String::from)];
        rows.push(
            [title, "", "used", "soft", "hard", "grace", "used", "soft", "hard", "grace"].map(String::from),
        );
        rows.extend(sheet.rows.iter().map(|row| cells(row, &names, now)));
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
        for row in &rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(n, (cell, &width))| {
                if n < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            out.line(cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
    }
    Ok(())
}

fn cells(row: &Row, names: &Names, now: i64) -> [String; 10] {
    let accounts = [row.quota.blocks, row.quota.inodes];
    let over = accounts.map(|account| if account.is_over_soft(account.used) { "+" } else { "-" });
    let [blocks, inodes] = accounts.map(|account| grace(&account, now));
    let kib = |blocks: u64| blocks.div_ceil(2).to_string();
    let Row { id, quota, .. } = row;
    [
        names.name(*id),
        over.concat(),
        kib(quota.blocks.used),
        kib(quota.blocks.soft),
        kib(quota.blocks.hard),
        blocks,
        quota.inodes.used.to_string(),
        quota.inodes.soft.to_string(),
        quota.inodes.hard.to_string(),
        inodes,
    ]
}

/// Returns how long an account may still be over its soft limit.
fn grace(account: &Account, now: i64) -> String {
    if !account.is_over_soft(account.used) || account.deadline == 0 {
        String::new()
    } else if account.deadline < now {
        "none".into()
    } else {
        period(account.deadline - now)
    }
}

/// Returns a time as days, or as hours and minutes.
fn period(seconds: i64) -> String {
    let minutes = (seconds + 30) / 60;
    match seconds {
        _ if seconds >= 2 * DAY || seconds == DAY => {
            let days = (seconds + DAY / 2) / DAY;
            format!("{days} day{}", if days == 1 { "" } else { "s" })
        }
        60.. => format!("{}:{:02}", minutes / 60, minutes % 60),
        _ => format!("{seconds} s"),
    }
}
