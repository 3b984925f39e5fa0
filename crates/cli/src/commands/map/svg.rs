//! The map of a file system as a picture.

use crate::error::Result;
use spindle_ffs::Layout;
use spindle_ffs::inspect::{Survey, Use};
use spindle_report::render::{Cells, cells};

/// Returns the picture as the text of an SVG file.
pub fn draw(image: &str, layout: &Layout, survey: &Survey) -> Result<String> {
    let rows = survey.grid.rows();
    let share = |frags: u64| super::amount(layout, frags);
    let legend = Use::ALL
        .into_iter()
        .zip(survey.uses)
        .map(|(used, frags)| (format!("{} ({})", used.name(), share(frags)), colour(used)))
        .collect();
    let picture = Cells {
        title: format!("{image}: {}", share(layout.fs_size)),
        rows: rows
            .iter()
            .map(|row| {
                let label = row.begins_group.then(|| row.group.to_string());
                let cells = row.cells.iter().map(|cell| cell.map(|used| used as usize)).collect();
                (label, cells)
            })
            .collect(),
        legend,
    };
    Ok(cells(&picture)?)
}

/// Returns the colour of a use: those that most people can distinguish (Okabe and Ito).
const fn colour(used: Use) -> (u8, u8, u8) {
    match used {
        Use::Metadata => (204, 121, 167),
        Use::Inodes => (230, 159, 0),
        Use::Directory => (213, 94, 0),
        Use::Indirect => (0, 0, 0),
        Use::Data => (0, 114, 178),
        Use::Fragment => (86, 180, 233),
        Use::Log => (0, 158, 115),
        Use::Free => (226, 226, 226),
        Use::Unknown => (148, 148, 148),
    }
}
