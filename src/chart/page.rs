//! The page that every kind of chart is drawn on: colours, title, legend, axes and shapes. The
//! colours are for a light background; a CSS rule replaces them on a dark one. Positions in the
//! plot are shares from 0 to 1, from the left and from the bottom.

use std::fmt::Display;

/// The colour on a light and on a dark background.
type Shade = [&'static str; 2];

const PAPER: Shade = ["#FFFFFF", "#0D1117"];
const INK: Shade = ["#1F2328", "#E6EDF3"];
const MUTED: Shade = ["#59636E", "#9198A1"];
const GRID: Shade = ["#D8DEE4", "#30363D"];

/// Colours of the series, distinct by hue and by lightness on either background.
const PALETTE: [Shade; 8] = [
    ["#0969DA", "#58A6FF"],
    ["#BC4C00", "#F0883E"],
    ["#1A7F37", "#3FB950"],
    ["#8250DF", "#BC8CFF"],
    ["#CF222E", "#FF7B72"],
    ["#9A6700", "#D29922"],
    ["#1B7C83", "#39C5CF"],
    ["#BF3989", "#F778BA"],
];

const WIDTH: f64 = 760.0;
/// Room for the title, and below the plot for the labels of its axis.
const HEAD: f64 = 44.0;
const FOOT: f64 = 60.0;
const MARGIN: f64 = 24.0;
/// Height of a line of the legend.
const LEGEND_ROW: f64 = 22.0;
/// How far a text's middle lies above its base line.
const MIDDLE: f64 = 4.0;

/// Colour of the series or part with this number.
pub(super) fn colour(index: usize) -> &'static str {
    PALETTE[index % PALETTE.len()][0]
}

/// How many pixels the longest of these texts takes, roughly: a reader's font is not known.
fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> f64 {
    texts.map(|text| text.chars().count() as f64 * 7.0).fold(0.0, f64::max)
}

/// A place on an axis and its label.
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
}

/// The labels of an axis.
pub(super) struct AxisLabels<'a> {
    pub(super) name: &'a str,
    pub(super) ticks: Vec<Tick>,
    /// Whether a line of the grid goes through each tick.
    pub(super) grid: bool,
}

/// A page under construction.
pub(super) struct Sheet {
    svg: String,
    left: f64,
    right: f64,
    bottom: f64,
}

impl Sheet {
    /// A page whose plot is `height` pixels high between its axes. The legend shows its names if
    /// there is more than one.
    pub(super) fn new(
        title: &str,
        legend: &[&str],
        height: f64,
        below: &AxisLabels<'_>,
        beside: &AxisLabels<'_>,
    ) -> Self {
        let bottom = HEAD + height;
        let whole = bottom + FOOT;
        let side = if legend.len() > 1 { widest(legend.iter().copied()) + 56.0 } else { 0.0 };
        let names = widest(beside.ticks.iter().map(|tick| tick.label.as_str()));
        let left = names + if beside.name.is_empty() { 28.0 } else { 48.0 };
        let mut page = Self { svg: String::new(), left, right: WIDTH - side - MARGIN, bottom };
        page.svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{whole}\" \
             viewBox=\"0 0 {WIDTH} {whole}\" font-family=\"system-ui, sans-serif\" \
             font-size=\"12\">\n<style>@media (prefers-color-scheme: dark){{"
        );
        for [light, dark] in [PAPER, INK, MUTED, GRID].into_iter().chain(PALETTE) {
            page.svg +=
                &format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}");
        }
        page.svg += "}</style>\n";
        page.element(format!("rect width=\"{WIDTH}\" height=\"{whole}\" fill=\"{}\"", PAPER[0]));
        page.write([20.0, HEAD / 2.0 + 6.0], "font-size=\"16\"", INK, title);
        if legend.len() > 1 {
            for (index, name) in legend.iter().enumerate() {
                let y = HEAD + 16.0 + index as f64 * LEGEND_ROW;
                let x = WIDTH - side + 8.0;
                let look = look(index);
                page.element(format!(
                    "rect x=\"{x}\" y=\"{}\" width=\"12\" height=\"10\" {look}",
                    y - 5.0
                ));
                page.write([x + 20.0, y + MIDDLE], "", INK, name);
            }
        }
        page.axes(below, beside);
        page
    }

    fn axes(&mut self, below: &AxisLabels<'_>, beside: &AxisLabels<'_>) {
        for Tick { at, label } in &below.ticks {
            let x = self.x(*at);
            if below.grid {
                self.line([x, HEAD], [x, self.bottom]);
            }
            self.write([x, self.bottom + 18.0], "text-anchor=\"middle\"", MUTED, label);
        }
        for Tick { at, label } in &beside.ticks {
            let y = self.y(*at);
            if beside.grid {
                self.line([self.left, y], [self.right, y]);
            }
            self.write([self.left - 8.0, y + MIDDLE], "text-anchor=\"end\"", MUTED, label);
        }
        self.line([self.left, self.bottom], [self.right, self.bottom]);
        self.line([self.left, HEAD], [self.left, self.bottom]);
        let middle = (self.left + self.right) / 2.0;
        self.write([middle, self.bottom + 42.0], "text-anchor=\"middle\"", INK, below.name);
        let middle = (HEAD + self.bottom) / 2.0;
        let turned = format!("text-anchor=\"middle\" transform=\"rotate(-90 20 {middle})\"");
        self.write([20.0, middle], &turned, INK, beside.name);
    }

    /// A curve, with its points marked if there are at most `marked`.
    pub(super) fn curve(&mut self, index: usize, points: &[[f64; 2]], marked: usize) {
        let places: Vec<String> =
            points.iter().map(|[x, y]| format!("{:.1},{:.1}", self.x(*x), self.y(*y))).collect();
        self.element(format!(
            "polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"",
            places.join(" "),
            colour(index)
        ));
        if points.len() <= marked {
            for [x, y] in points {
                let place = format!("cx=\"{:.1}\" cy=\"{:.1}\"", self.x(*x), self.y(*y));
                self.element(format!("circle {place} r=\"3\" {}", look(index)));
            }
        }
    }

    /// A rectangle in the plot; `look` are SVG attributes.
    pub(super) fn area(&mut self, x: [f64; 2], y: [f64; 2], look: impl Display) {
        let left = self.x(x[0]);
        let top = self.y(y[1]);
        let width = self.x(x[1]) - left;
        let height = self.y(y[0]) - top;
        self.element(format!(
            "rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" {look}"
        ));
    }

    /// A label in the plot: around `at`, or after it.
    pub(super) fn label(&mut self, [x, y]: [f64; 2], centred: bool, text: &str) {
        let place = [self.x(x) + if centred { 0.0 } else { 6.0 }, self.y(y) + MIDDLE];
        self.write(place, if centred { "text-anchor=\"middle\"" } else { "" }, INK, text);
    }

    /// The whole as SVG text.
    pub(super) fn svg(self) -> String {
        self.svg + "</svg>\n"
    }

    fn x(&self, share: f64) -> f64 {
        self.left + share * (self.right - self.left)
    }

    fn y(&self, share: f64) -> f64 {
        self.bottom - share * (self.bottom - HEAD)
    }

    fn line(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
        self.element(format!("path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"{}\"", GRID[0]));
    }

    fn write(&mut self, [x, y]: [f64; 2], more: &str, shade: Shade, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let fill = shade[0];
        self.svg +=
            &format!("<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{fill}\" {more}>{text}</text>\n");
    }

    fn element(&mut self, inside: String) {
        self.svg += &format!("<{inside}/>\n");
    }
}

/// Marks of a series. Once all colours are used, hollow marks tell the series apart.
fn look(index: usize) -> String {
    let colour = colour(index);
    let fill = if index / PALETTE.len() % 2 == 1 { "none" } else { colour };
    format!("fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"2\"")
}
