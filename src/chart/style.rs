//! Colours, fonts and the page on which both kinds of chart are drawn. The colours are for a light
//! background; a CSS rule replaces them on a dark one. It must not depend on what is measured.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::ChartError;

/// The colour on a light and on a dark background.
type Shade = (RGBColor, RGBColor);

const PAPER: Shade = (RGBColor(255, 255, 255), RGBColor(13, 17, 23));
const INK: Shade = (RGBColor(31, 35, 40), RGBColor(230, 237, 243));
const MUTED: Shade = (RGBColor(89, 99, 110), RGBColor(145, 152, 161));
const GRID: Shade = (RGBColor(216, 222, 228), RGBColor(48, 54, 61));

/// Colours of the series, distinct by hue and by lightness on either background.
const PALETTE: [Shade; 8] = [
    (RGBColor(9, 105, 218), RGBColor(88, 166, 255)),
    (RGBColor(188, 76, 0), RGBColor(240, 136, 62)),
    (RGBColor(26, 127, 55), RGBColor(63, 185, 80)),
    (RGBColor(130, 80, 223), RGBColor(188, 140, 255)),
    (RGBColor(207, 34, 46), RGBColor(255, 123, 114)),
    (RGBColor(154, 103, 0), RGBColor(210, 153, 34)),
    (RGBColor(27, 124, 131), RGBColor(57, 197, 207)),
    (RGBColor(191, 57, 137), RGBColor(247, 120, 186)),
];

const FONT: &str = "system-ui, sans-serif";
const WIDTH: u32 = 760;
const ROW: i32 = 22;
/// Room for the title.
const HEAD: i32 = 44;

pub(super) type Sheet<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Plot<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

/// Colour of the series or part with this number.
pub(super) fn colour(index: usize) -> RGBColor {
    PALETTE[index % PALETTE.len()].0
}

/// Whether the colours have been used once, so that something else must distinguish the series.
pub(super) fn second_turn(index: usize) -> bool {
    index / PALETTE.len() % 2 == 1
}

pub(super) fn ink() -> TextStyle<'static> {
    letters(15, &INK.0)
}

pub(super) fn muted() -> TextStyle<'static> {
    letters(15, &MUTED.0)
}

pub(super) fn grid() -> RGBColor {
    GRID.0
}

/// `size` is about 1.24 times that of the letters, as the backend requires.
fn letters(size: u32, colour: &'static RGBColor) -> TextStyle<'static> {
    TextStyle::from((FONT, size)).color(colour)
}

/// How many pixels a text takes, roughly: a reader's font is not known.
pub(super) fn text_width(text: &str) -> u32 {
    text.chars().count() as u32 * 7
}

/// Draws a page of this height: background, title, a legend at the right if `legend` has more
/// than one name, and what `draw` puts on the rest.
pub(super) fn sheet(
    title: &str,
    legend: &[&str],
    height: u32,
    draw: impl FnOnce(&Sheet<'_>) -> Result<(), ChartError>,
) -> Result<String, ChartError> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        root.fill(&PAPER.0)?;
        let heading = letters(20, &INK.0).pos(Pos::new(HPos::Left, VPos::Center));
        root.draw(&Text::new(title, (20, HEAD / 2 + 2), heading))?;
        let (_, below) = root.split_vertically(HEAD);
        if legend.len() > 1 {
            let widest = legend.iter().map(|name| text_width(name)).max().unwrap_or(0);
            let (plot, side) = below.split_horizontally(WIDTH.saturating_sub(widest + 56));
            names(&side, legend)?;
            draw(&plot)?;
        } else {
            draw(&below)?;
        }
        root.present()?;
    }
    Ok(for_either_paper(&svg))
}

fn names(side: &Sheet<'_>, legend: &[&str]) -> Result<(), ChartError> {
    for (i, name) in legend.iter().enumerate() {
        let y = 16 + i as i32 * ROW;
        let style = ShapeStyle::from(&colour(i)).stroke_width(2);
        let mark = if second_turn(i) { style } else { style.filled() };
        side.draw(&Rectangle::new([(8, y - 5), (20, y + 5)], mark))?;
        let text = ink().pos(Pos::new(HPos::Left, VPos::Center));
        side.draw(&Text::new((*name).to_owned(), (28, y), text))?;
    }
    Ok(())
}

/// Adds the CSS rules that replace the colours.
fn for_either_paper(svg: &str) -> String {
    let hex = |RGBColor(r, g, b): RGBColor| format!("#{r:02X}{g:02X}{b:02X}");
    let mut rules = String::from("<style>@media (prefers-color-scheme: dark){");
    for (light, dark) in [PAPER, INK, MUTED, GRID].into_iter().chain(PALETTE) {
        let light = hex(light);
        let dark = hex(dark);
        rules += &format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}");
    }
    rules += "}</style>\n";
    let body = svg.find('\n').map_or(svg.len(), |end| end + 1);
    format!("{}{rules}{}", &svg[..body], &svg[body..])
}
