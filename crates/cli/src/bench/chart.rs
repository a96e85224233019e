//! The chart as SVG: latencies on the left, throughput by threads on the right.

use hdrhistogram::Histogram;

use super::measure::{Figures, Measurements};
use super::report::Report;

/// The whole picture.
pub fn svg(report: &Report<'_>) -> String {
    let [head, latencies, scaling] = [head(report), latencies(report), scaling(report)];
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1240 600\" width=\"1240\" \
         height=\"600\" font-family=\"sans-serif\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{head}{latencies}{scaling}</svg>\n"
    )
}

/// For our forms; people who do not see red or green can tell them apart, too.
const OURS: [&str; 4] = ["#1f5fbf", "#2a9d8f", "#8e44ad", "#555555"];
const FETCH_ADD: &str = "#d95f02";
const GRID: &str = "#dddddd";

/// The last percentile is 99.999, by its nines.
const LAST_NINE: usize = 5;

/// The title and the legend, which both panels share.
fn head(report: &Report<'_>) -> String {
    let title = format!("What an id costs, {}", report.title());
    let machine = format!("uidring {} on {}", env!("CARGO_PKG_VERSION"), report.machine());
    let mut svg = text((24, 38), 23, "", &title);
    svg.push_str(&text((24, 64), 16, "fill=\"#555555\"", &machine));
    for ((figures, color), x) in with_colors(report).zip((24..).step_by(225)) {
        let name = match figures.ids_per_call {
            1 if color == FETCH_ADD => "fetch_add, a bare addition".to_owned(),
            1 => figures.name.clone(),
            many => format!("{}, {many} a call", figures.name),
        };
        svg.push_str(&line(&[(x, 92), (x + 28, 92)], color, 4));
        svg.push_str(&text((x + 36, 98), 17, "", &name));
    }
    svg
}

fn latencies(report: &Report<'_>) -> String {
    let curves: Vec<_> =
        with_colors(report).map(|(figures, color)| (curve(&figures.latency), color)).collect();
    let percentile = |nines| match nines {
        0 => "0".into(),
        1 => "90".into(),
        2 => "99".into(),
        _ => format!("99.{}", "9".repeat(nines - 2)),
    };
    let x = Axis {
        title: "percentile (%, log scale)",
        range: (0.0, LAST_NINE as f64),
        labels: (0..=LAST_NINE).map(percentile).collect(),
    };
    let y = Axis::decades("latency of a call (log scale)", &curves, duration);
    panel(106, "Latency of single calls", &x, &y, &curves, 0)
}

fn scaling(report: &Report<'_>) -> String {
    let scaling = &report.measured.scaling;
    let curves: Vec<_> = with_colors(report)
        .enumerate()
        .map(|(which, (_, color))| {
            let rates = scaling.iter().map(|at| at.rates[which].log10());
            ((0..).map(f64::from).zip(rates).collect(), color)
        })
        .collect();
    let x = Axis {
        title: "threads",
        // Some room beside the first and the last number of threads.
        range: (-0.15, scaling.len() as f64 - 0.85),
        labels: scaling.iter().map(|at| at.threads.to_string()).collect(),
    };
    let rate = |decade| 10_f64.powi(decade).to_string();
    let y = Axis::decades("million uids per second (log scale)", &curves, rate);
    panel(766, "Throughput by threads", &x, &y, &curves, 5)
}

/// Our forms and the baseline, each with its color.
fn with_colors<'r>(report: &'r Report<'_>) -> impl Iterator<Item = (&'r Figures, &'static str)> {
    let Measurements { figures, baseline, .. } = &report.measured;
    figures[..*baseline].iter().zip(OURS).chain([(&figures[*baseline], FETCH_ADD)])
}

/// The points of a line, and its color.
type Curve = (Vec<(f64, f64)>, &'static str);

struct Axis {
    title: &'static str,
    range: (f64, f64),
    /// Of the whole numbers in the range, from its first one on.
    labels: Vec<String>,
}

impl Axis {
    /// Whole decades that hold all curves: a small difference must not look like a cliff.
    fn decades(title: &'static str, curves: &[Curve], label: fn(i32) -> String) -> Self {
        let heights = curves.iter().flat_map(|(points, _)| points).map(|(_, height)| *height);
        let (low, high) =
            heights.fold((f64::MAX, f64::MIN), |(low, high), y| (low.min(y), high.max(y)));
        let (low, high) = (low.floor(), (high + 0.02).ceil().max(low.floor() + 1.0));
        let labels = (low as i32..=high as i32).map(label).collect();
        Self { title, range: (low, high), labels }
    }

    /// The labels with their places, as parts of the axis.
    fn marks(&self) -> impl Iterator<Item = (f64, &String)> {
        let places = (self.range.0.ceil() as i32..).map(|number| self.share(number.into()));
        places.zip(&self.labels)
    }

    fn share(&self, value: f64) -> f64 {
        (value - self.range.0) / (self.range.1 - self.range.0)
    }
}

/// Curves over a grid, with dots of this radius for their points.
fn panel(left: i32, title: &str, x: &Axis, y: &Axis, curves: &[Curve], dot: u32) -> String {
    const WIDTH: i32 = 440;
    const TOP: i32 = 156;
    const BOTTOM: i32 = 526;
    const CENTERED: &str = "text-anchor=\"middle\"";
    let across = |share: f64| left + (share * f64::from(WIDTH)).round() as i32;
    let up = |share: f64| BOTTOM - (share * f64::from(BOTTOM - TOP)).round() as i32;
    let mut svg = text((across(0.5), TOP - 14), 20, CENTERED, title);
    for (share, label) in x.marks() {
        svg += &line(&[(across(share), TOP), (across(share), BOTTOM)], GRID, 1);
        svg += &text((across(share), BOTTOM + 22), 16, CENTERED, label);
    }
    for (share, label) in y.marks() {
        svg += &line(&[(left, up(share)), (left + WIDTH, up(share))], GRID, 1);
        svg += &text((left - 8, up(share) + 5), 16, "text-anchor=\"end\"", label);
    }
    svg += &text((across(0.5), BOTTOM + 54), 17, CENTERED, x.title);
    let (at, middle) = (left - 78, up(0.5));
    let turned = format!("{CENTERED} transform=\"rotate(-90 {at} {middle})\"");
    svg += &text((at, middle), 17, &turned, y.title);
    // Ours last: on top where two are the same.
    for (points, color) in curves.iter().rev() {
        let place = |point: &(f64, f64)| (across(x.share(point.0)), up(y.share(point.1)));
        let places: Vec<_> = points.iter().map(place).collect();
        svg += &line(&places, color, 3);
        for (x, y) in places.into_iter().filter(|_| dot > 0) {
            svg += &format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{dot}\" fill=\"{color}\"/>\n");
        }
    }
    svg
}

fn text((x, y): (i32, i32), size: u32, style: &str, text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    format!("<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" {style}>{text}</text>\n")
}

fn line(points: &[(i32, i32)], color: &str, width: u32) -> String {
    let points: Vec<_> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
    let points = points.join(" ");
    format!(
        "<polyline points=\"{points}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\"/>\n"
    )
}

/// From percentile 0 to the last one that so many calls can tell: nines, and logarithms of nanoseconds.
fn curve(times: &Histogram<u64>) -> Vec<(f64, f64)> {
    const STEPS: usize = 40;
    let last = (times.len().max(1) as f64).log10().min(LAST_NINE as f64);
    let nines = (0..=LAST_NINE * STEPS).map(|step| step as f64 / STEPS as f64);
    let point = |nines: f64| {
        let time = times.value_at_quantile(1.0 - 10_f64.powf(-nines));
        // A clock too coarse to see a call says 0.
        (nines, (time.max(1) as f64).log10())
    };
    nines.take_while(|nines| *nines <= last).map(point).collect()
}

/// A decade of nanoseconds in the unit that suits it.
fn duration(decade: i32) -> String {
    const UNITS: [&str; 4] = ["ns", "µs", "ms", "s"];
    let decade = decade.max(0) as usize;
    let unit = (decade / 3).min(UNITS.len() - 1);
    format!("{} {}", 10_u64.pow((decade - 3 * unit) as u32), UNITS[unit])
}
