//! The chart: latencies on the left, throughput by threads on the right.

use std::ops::Range;

use hdrhistogram::Histogram;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::measure::{Figures, Measured};
use super::report::Report;

/// The whole picture as SVG.
pub fn svg(report: &Report<'_>) -> Result<String, Box<dyn std::error::Error>> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (1_240, 600)).into_drawing_area();
        area.fill(&WHITE)?;
        let (head, panels) = area.split_vertically(HEAD);
        draw_head(&head, report)?;
        let (left, right) = panels.split_horizontally(700);
        draw_latencies(&left, report)?;
        draw_scaling(&right, report)?;
        area.present()?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

/// Pixels for the title and the legend, which both panels share: beside the curves, never on them.
const HEAD: i32 = 112;

/// Of our forms; told apart by those who see no red or green, too.
const OURS: [RGBColor; 4] = [
    RGBColor(0x1f, 0x5f, 0xbf),
    RGBColor(0x2a, 0x9d, 0x8f),
    RGBColor(0x8e, 0x44, 0xad),
    RGBColor(0x55, 0x55, 0x55),
];
const FETCH_ADD: RGBColor = RGBColor(0xd9, 0x5f, 0x02);
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

/// What stands in the place of a percentile: -log10 of the rest. It ends at 99.999.
const LAST_NINE: usize = 5;

fn draw_head<'a>(head: &Area<'a>, report: &Report<'_>) -> Drawn<'a> {
    let font = |size: i32| ("sans-serif", size).into_font();
    let title = format!("What an id costs, {}", report.title());
    head.draw_text(&title, &font(23).into(), (24, 18))?;
    let grey = font(16).color(&RGBColor(0x55, 0x55, 0x55));
    let machine = format!("uidring {} on {}", env!("CARGO_PKG_VERSION"), report.machine());
    head.draw_text(&machine, &grey, (24, 50))?;
    let middle = Pos::new(HPos::Left, VPos::Center);
    for (place, (figures, color)) in with_colors(report).enumerate() {
        let x = 24 + 240 * place as i32;
        let name = match figures.ids_per_call {
            1 if color == FETCH_ADD => "fetch_add, a bare addition".to_owned(),
            1 => figures.name.to_owned(),
            many => format!("{}, {many} a call", figures.name),
        };
        let style = color.stroke_width(4);
        head.draw(&PathElement::new([(x, 92), (x + 28, 92)], style))?;
        let text = TextStyle::from(font(17)).pos(middle);
        head.draw_text(&name, &text, (x + 36, 92))?;
    }
    Ok(())
}

fn draw_latencies<'a>(area: &Area<'a>, report: &Report<'_>) -> Drawn<'a> {
    let curves: Vec<_> =
        with_colors(report).map(|(figures, color)| (curve(&figures.latency), color)).collect();
    let nines = (0..=LAST_NINE).map(|nines| nines as f64).collect();
    let x = Axis {
        title: "percentile (%, log scale)",
        scale: Scale { range: 0.0..LAST_NINE as f64, marks: nines },
        label: &percentile,
    };
    let y = Axis {
        title: "latency of a call (log scale)",
        scale: Scale::decades(&curves),
        label: &duration,
    };
    draw_panel(area, "Latency of single calls", x, y, &curves, false)
}

fn draw_scaling<'a>(area: &Area<'a>, report: &Report<'_>) -> Drawn<'a> {
    let scaling = &report.measured.scaling;
    let curves: Vec<_> = with_colors(report)
        .enumerate()
        .map(|(which, (_, color))| {
            let rates = scaling.iter().map(|at| at.rates[which].log10());
            ((0..).map(f64::from).zip(rates).collect(), color)
        })
        .collect();
    // One place for each number of threads, with some room beside the first and the last.
    let places = (0..scaling.len()).map(|place| place as f64).collect();
    let last = scaling.len() as f64 - 1.0;
    let threads = |place: &f64| {
        scaling.get(place.round() as usize).map_or_else(String::new, |at| at.threads.to_string())
    };
    let rate = |decade: &f64| format!("{}", 10_f64.powf(decade.round()));
    let scale = Scale { range: -0.15..last + 0.15, marks: places };
    let x = Axis { title: "threads", scale, label: &threads };
    let y = Axis {
        title: "million uids per second (log scale)",
        scale: Scale::decades(&curves),
        label: &rate,
    };
    draw_panel(area, "Throughput by threads", x, y, &curves, true)
}

/// Our forms and the baseline, each with its color.
fn with_colors<'r>(report: &'r Report<'_>) -> impl Iterator<Item = (&'r Figures, RGBColor)> {
    let Measured { figures, baseline, .. } = &report.measured;
    let ours = figures[..*baseline].iter().zip(OURS);
    ours.chain([(&figures[*baseline], FETCH_ADD)])
}

struct Axis<'l> {
    title: &'l str,
    scale: Scale,
    label: &'l dyn Fn(&f64) -> String,
}

/// Points of a line.
type Curve = Vec<(f64, f64)>;

fn draw_panel<'a>(
    area: &Area<'a>,
    title: &str,
    x: Axis<'_>,
    y: Axis<'_>,
    curves: &[(Curve, RGBColor)],
    dots: bool,
) -> Drawn<'a> {
    let mut chart = ChartBuilder::on(area)
        .margin(14)
        .margin_right(26)
        .caption(title, ("sans-serif", 20))
        .x_label_area_size(60)
        .y_label_area_size(92)
        .build_cartesian_2d(x.scale, y.scale)?;
    chart
        .configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 16))
        .axis_desc_style(("sans-serif", 17))
        .x_desc(x.title)
        .y_desc(y.title)
        .x_label_formatter(x.label)
        .y_label_formatter(y.label)
        .draw()?;
    // Ours last: on top where two are the same.
    for (points, color) in curves.iter().rev() {
        chart.draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(3)))?;
        if dots {
            let dot = |point: &(f64, f64)| Circle::new(*point, 5, color.filled());
            chart.draw_series(points.iter().map(dot))?;
        }
    }
    Ok(())
}

/// A linear scale with marks where we want them, which the crate's own leaves without labels.
struct Scale {
    range: Range<f64>,
    /// Where lines of the grid and labels stand.
    marks: Vec<f64>,
}

impl Scale {
    /// Whole decades that hold all curves: a small difference must not look like a cliff.
    fn decades(curves: &[(Curve, RGBColor)]) -> Self {
        let heights = curves.iter().flat_map(|(points, _)| points).map(|(_, height)| *height);
        let (low, high) =
            heights.fold((f64::MAX, f64::MIN), |(low, high), y| (low.min(y), high.max(y)));
        let (low, high) = (low.floor(), (high + 0.02).ceil().max(low.floor() + 1.0));
        Self { range: low..high, marks: (low as i32..=high as i32).map(f64::from).collect() }
    }
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        first + (share * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.marks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// From percentile 0 to the last one that so many calls can tell: places, and logarithms of
/// nanoseconds.
fn curve(times: &Histogram<u64>) -> Curve {
    const STEPS: usize = 40;
    let last = (times.len().max(1) as f64).log10().min(LAST_NINE as f64);
    let places = (0..=LAST_NINE * STEPS).map(|step| step as f64 / STEPS as f64);
    let reached = places.take_while(|place| *place <= last);
    reached
        .map(|place| {
            let time = times.value_at_quantile(1.0 - 10_f64.powf(-place));
            // A clock too coarse to see a call says 0.
            (place, (time.max(1) as f64).log10())
        })
        .collect()
}

fn percentile(place: &f64) -> String {
    match place.round() as usize {
        0 => "0".into(),
        1 => "90".into(),
        2 => "99".into(),
        nines => format!("99.{}", "9".repeat(nines - 2)),
    }
}

/// A decade of nanoseconds in the unit that suits it.
fn duration(decade: &f64) -> String {
    const UNITS: [&str; 4] = ["ns", "µs", "ms", "s"];
    let decade = decade.round().max(0.0) as usize;
    let unit = (decade / 3).min(UNITS.len() - 1);
    format!("{} {}", 10_u64.pow((decade - 3 * unit) as u32), UNITS[unit])
}
