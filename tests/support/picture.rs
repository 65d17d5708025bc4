//! A terminal's screen as an SVG, and what a program wrote as an asciicast.

use std::fmt::Write;
use std::time::Duration;

/// The size of a cell in pixels.
const CELL: (f64, f64) = (8.4, 18.0);
/// The margin around the screen in pixels.
const MARGIN: f64 = 12.0;

/// The colours of a terminal that has no others set.
#[derive(Clone, Copy)]
pub struct Ground {
    paper: &'static str,
    ink: &'static str,
}

pub const DARK: Ground = Ground { paper: "#181a1f", ink: "#dcdde1" };
pub const LIGHT: Ground = Ground { paper: "#fbfaf7", ink: "#2a2c31" };

/// The sixteen colours of a dark terminal.
const SIXTEEN: [&str; 16] = [
    "#181a1f", "#d7875f", "#87af87", "#d7af87", "#87afff", "#af87af", "#87afaf", "#bcbcbc",
    "#585858", "#ffaf87", "#afd7af", "#ffd7af", "#afd7ff", "#d7afd7", "#afd7d7", "#ffffff",
];

/// What two neighbouring cells must have in common to be one run of text.
#[derive(Clone, PartialEq)]
struct Look {
    ink: String,
    paper: Option<String>,
    bold: bool,
    underline: bool,
}

impl Look {
    fn of(cell: &vt100::Cell, ground: Ground) -> Self {
        let mut ink = hex(cell.fgcolor());
        let mut paper = hex(cell.bgcolor());
        if cell.inverse() {
            std::mem::swap(&mut ink, &mut paper);
            ink = ink.or_else(|| Some(ground.paper.to_owned()));
            paper = paper.or_else(|| Some(ground.ink.to_owned()));
        }
        let ink = ink.unwrap_or_else(|| ground.ink.to_owned());
        Self { ink, paper, bold: cell.bold(), underline: cell.underline() }
    }
}

/// An entry of xterm's palette; `None` is the terminal's own colour.
fn hex(colour: vt100::Color) -> Option<String> {
    let index = match colour {
        vt100::Color::Default => return None,
        vt100::Color::Rgb(r, g, b) => return Some(format!("#{r:02x}{g:02x}{b:02x}")),
        vt100::Color::Idx(index) => usize::from(index),
    };
    if index < 16 {
        return Some(SIXTEEN[index].to_owned());
    }
    if index >= 232 {
        let grey = 8 + 10 * (index - 232);
        return Some(format!("#{grey:02x}{grey:02x}{grey:02x}"));
    }
    let level = |step: usize| if step == 0 { 0 } else { 55 + 40 * step };
    let cube = index - 16;
    let [r, g, b] = [cube / 36, cube / 6 % 6, cube % 6].map(level);
    Some(format!("#{r:02x}{g:02x}{b:02x}"))
}

/// The screen as it would look in a terminal with these colours.
pub fn svg(screen: &vt100::Screen, ground: Ground) -> String {
    let paper = ground.paper;
    let (rows, columns) = screen.size();
    let width = 2.0 * MARGIN + f64::from(columns) * CELL.0;
    let height = 2.0 * MARGIN + f64::from(rows) * CELL.1;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace\" \
         font-size=\"14\"><rect width=\"100%\" height=\"100%\" rx=\"10\" fill=\"{paper}\"/>\n"
    );
    for row in 0..rows {
        let mut run: Option<(u16, Look, String)> = None;
        for column in 0..columns {
            let Some(cell) = screen.cell(row, column) else { continue };
            if cell.is_wide_continuation() {
                continue;
            }
            let look = Look::of(cell, ground);
            let text = if cell.has_contents() { cell.contents() } else { " " };
            match &mut run {
                Some((_, same, words)) if *same == look => words.push_str(text),
                _ => {
                    if let Some((from, look, words)) = run.take() {
                        draw(&mut svg, row, from, column, &look, &words);
                    }
                    run = Some((column, look, text.to_owned()));
                }
            }
        }
        if let Some((from, look, words)) = run {
            draw(&mut svg, row, from, columns, &look, &words);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// One run of cells with the same look, from column `from` to `to`.
fn draw(svg: &mut String, row: u16, from: u16, to: u16, look: &Look, words: &str) {
    let left = MARGIN + f64::from(from) * CELL.0;
    let top = MARGIN + f64::from(row) * CELL.1;
    let width = f64::from(to - from) * CELL.0;
    if let Some(paper) = &look.paper {
        let (x, height) = (left, CELL.1);
        writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height}\" \
             fill=\"{paper}\"/>"
        )
        .unwrap();
    }
    if words.trim().is_empty() && !look.underline {
        return;
    }
    let mut style = format!("fill=\"{}\"", look.ink);
    if look.bold {
        style.push_str(" font-weight=\"bold\"");
    }
    if look.underline {
        style.push_str(" text-decoration=\"underline\"");
    }
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let base = top + 13.5;
    writeln!(
        svg,
        "<text x=\"{left:.1}\" y=\"{base:.1}\" textLength=\"{width:.1}\" {style} \
         xml:space=\"preserve\">{words}</text>"
    )
    .unwrap();
}

/// What a program wrote and when, for `asciinema play`.
pub fn cast(title: &str, columns: u16, rows: u16, written: &[(Duration, Vec<u8>)]) -> String {
    let header = serde_json::json!({
        "version": 2, "width": columns, "height": rows, "title": title,
        "env": {"TERM": "xterm-256color"},
    });
    let mut lines = format!("{header}\n");
    let mut rest = Vec::new();
    for (at, bytes) in written {
        rest.extend_from_slice(bytes);
        // A character may be cut between two reads.
        let valid = match std::str::from_utf8(&rest) {
            Ok(_) => rest.len(),
            Err(error) => error.valid_up_to(),
        };
        let text: Vec<u8> = rest.drain(..valid).collect();
        let event = serde_json::json!([at.as_secs_f64(), "o", String::from_utf8(text).unwrap()]);
        writeln!(lines, "{event}").unwrap();
    }
    lines
}
