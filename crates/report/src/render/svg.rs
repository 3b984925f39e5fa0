//! Figures as SVG.

use super::axis::Axis;
use super::plot::{extent, label, round_up};
use crate::outcome::{Figure, Mark, Plot, Series, Unit};
use crate::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::*;

const SIZE: (u32, u32) = (800, 480);
/// Font sizes; the library uses them as line heights.
const TITLE: u32 = 22;
const LABEL: u32 = 18;
/// Height of a line of text below the chart.
const FOOTER: u32 = 32;
/// Maximum number of letters below the chart.
const COLUMNS: usize = 80;
/// Colours that most people can distinguish, also in print (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(148, 148, 148),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

/// Returns a figure as the text of an SVG file.
///
/// # Errors
/// [`Error`] of the drawing library.
pub fn svg(figure: &Figure) -> Result<String> {
    svg_with_footer(figure, "")
}

/// Returns a figure as the text of an SVG file, with a line of text below.
///
/// # Errors
/// [`Error`] of the drawing library.
pub fn svg_with_footer(figure: &Figure, footer: &str) -> Result<String> {
    let mut out = String::new();
    {
        let height = if footer.is_empty() { 0 } else { FOOTER };
        let whole = SVGBackend::with_string(&mut out, (SIZE.0, SIZE.1 + height)).into_drawing_area();
        let (area, below) = whole.split_vertically(SIZE.1);
        let style = ("sans-serif", LABEL).into_font();
        let filled = whole.fill(&WHITE).and_then(|()| below.draw(&Text::new(footer, (12, 2), style)));
        let drawn = filled.map_err(Into::into).and_then(|()| match &figure.plot {
            Plot::Lines { x, y, series } => lines(&area, &figure.title, x, y, series),
            Plot::Cumulative { x, unit, y, series, marks } => {
                cumulative(&area, &figure.title, (x, *unit, y), series, marks)
            }
            Plot::Bars { y, groups, series } => bars(&area, &figure.title, y, groups, series),
        });
        drawn
            .and_then(|()| Ok(whole.present()?))
            .map_err(|why| Error { figure: figure.title.clone(), why: why.to_string() })?;
    }
    out.push('\n');
    Ok(out)
}

const fn colour(n: usize) -> RGBColor {
    COLOURS[n % COLOURS.len()]
}

fn lines(area: &Area<'_>, title: &str, x: &str, y: &str, series: &[Series]) -> Drawn {
    let (low, high, top) = extent(series);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", TITLE))
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(72)
        .build_cartesian_2d(low..high, 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc(x)
        .y_desc(y)
        .x_label_formatter(&|n| label(*n))
        .y_label_formatter(&|n| label(*n))
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", LABEL))
        .axis_desc_style(("sans-serif", LABEL))
        .draw()?;
    for (n, curve) in series.iter().enumerate() {
        let style = colour(n).stroke_width(2);
        chart
            .draw_series(LineSeries::new(curve.points.iter().copied(), style))?
            .label(&curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        let dots = curve.points.iter().map(|&point| Circle::new(point, 3, colour(n).filled()));
        chart.draw_series(dots)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font(("sans-serif", LABEL))
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

/// Draws distributions as steps, with findings of others as grey bars.
fn cumulative(
    area: &Area<'_>,
    title: &str,
    (x, unit, y): (&str, Unit, &str),
    series: &[Series],
    marks: &[Mark],
) -> Drawn {
    const GREY: RGBColor = RGBColor(128, 128, 128);
    let axis = Axis::of(unit, series, marks);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", TITLE))
        .margin(12)
        .margin_right(24)
        .x_label_area_size(48)
        .y_label_area_size(72)
        .build_cartesian_2d(axis.low..axis.high, 0.0..1.0)?;
    chart
        .configure_mesh()
        .x_desc(x)
        .y_desc(y)
        .x_labels(8)
        .x_label_formatter(&|&n| axis.label(n))
        .y_label_formatter(&|n| format!("{:.0} %", n * 100.0))
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", LABEL))
        .axis_desc_style(("sans-serif", LABEL))
        .draw()?;
    for (n, mark) in marks.iter().enumerate() {
        let (at, (from, to)) = (axis.place(mark.x), mark.y);
        let style = GREY.stroke_width(6);
        let drawn = chart.draw_series([PathElement::new([(at, from - 0.012), (at, to + 0.012)], style)])?;
        if n == 0 {
            drawn
                .label("the papers' figures")
                .legend(move |(x, y)| PathElement::new([(x + 9, y - 6), (x + 9, y + 6)], style));
        }
    }
    for (n, curve) in series.iter().enumerate() {
        let style = colour(n).stroke_width(2);
        let points = curve.points.iter().map(|&(value, share)| (axis.place(value), share));
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(&curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .label_font(("sans-serif", LABEL))
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

/// Draws vertical bars, or horizontal ones if the names of their groups are too wide.
fn bars(area: &Area<'_>, title: &str, y: &str, groups: &[String], series: &[(String, Vec<f64>)]) -> Drawn {
    let top = round_up(series.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max) * 1.05);
    let count = groups.len().max(1);
    let longest = groups.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let lie = longest * count > COLUMNS;
    // Names are in the middle of their groups.
    let name = |at: &f64| {
        let group = groups.iter().enumerate().find(|(n, _)| (as_f64(*n) + 0.5 - at.abs()).abs() < 0.01);
        group.map(|(_, name)| name.clone()).unwrap_or_default()
    };
    let step = 0.8 / as_f64(series.len().max(1));
    let place = |group: usize, of_series: usize| {
        let from = as_f64(group) + 0.1 + as_f64(of_series) * step;
        (from, from + step * 0.92)
    };
    let names = u32::try_from(longest).unwrap_or(0) * LABEL / 2;
    let across = if lie { 0.0..top } else { 0.0..as_f64(count) };
    // The first group is at the top.
    let upwards = if lie { -as_f64(count)..0.0 } else { 0.0..top };
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", TITLE))
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(if lie { names.max(72) } else { 72 })
        .build_cartesian_2d(across, upwards)?;
    let mut mesh = chart.configure_mesh();
    let plain = |n: &f64| label(*n);
    if lie {
        mesh.disable_y_mesh().y_labels(2 * count + 1).y_label_formatter(&name).x_desc(y);
        mesh.x_label_formatter(&plain);
    } else {
        mesh.disable_x_mesh().x_labels(2 * count + 1).x_label_formatter(&name).y_desc(y);
        mesh.y_label_formatter(&plain);
    }
    mesh.light_line_style(TRANSPARENT)
        .label_style(("sans-serif", LABEL))
        .axis_desc_style(("sans-serif", LABEL))
        .draw()?;
    for (s, (name, values)) in series.iter().enumerate() {
        let boxes = values.iter().enumerate().map(|(g, &value)| {
            let (from, to) = place(g, s);
            let corners = if lie { [(0.0, -from), (value, -to)] } else { [(from, 0.0), (to, value)] };
            Rectangle::new(corners, colour(s).filled())
        });
        chart
            .draw_series(boxes)?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour(s).filled()));
    }
    if series.len() > 1 {
        let position = if lie { SeriesLabelPosition::LowerRight } else { SeriesLabelPosition::UpperRight };
        chart
            .configure_series_labels()
            .position(position)
            .label_font(("sans-serif", LABEL))
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss)] // Positions on a page.
const fn as_f64(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: drawing a figure twice gives the same result, with all names.
    #[test]
    fn drawing_is_repeatable() {
        let lines = Plot::Lines {
            x: "days".into(),
            y: "KB/s".into(),
            series: vec![Series { name: "new".into(), points: vec![(0.0, 1.0), (10.0, 100.0)] }],
        };
        let series = vec![("ours".into(), vec![1.0, 2.0]), ("paper's".into(), vec![2.0, 1.0])];
        let bars = Plot::Bars { y: "KB/s".into(), groups: vec!["old".into(), "new".into()], series };
        for (plot, names) in [(lines, ["days", "new"]), (bars, ["old", "ours"])] {
            let figure = Figure { title: "a title".into(), plot };
            let drawn = svg(&figure).unwrap();
            assert_eq!(drawn, svg(&figure).unwrap());
            assert!(names.iter().all(|name| drawn.contains(name)) && drawn.contains("a title"), "{drawn}");
            let below = svg_with_footer(&figure, "2 of 3").unwrap();
            assert!(below.contains("2 of 3") && below.contains("a title"), "{below}");
        }
    }
}
