//! Images that messages name, where the terminal shows images. Owns which of them are known, how
//! they are read and how they are drawn. Only regular files of this machine are read, never more
//! than the limits below. Must never know the conversation.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::Cursor;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use image::{DynamicImage, ImageFormat, ImageReader, Limits, RgbaImage};
use ratatui::buffer::{Buffer, CellDiffOption};
use ratatui::layout::Rect;
use ratatui::style::Color;

use super::effects::exchange::expanded;
use crate::caught::caught;
use crate::files::read_regular;

/// Most bytes of a file.
const LARGEST: u64 = 16 << 20;
/// Most bytes of its pixels.
const MOST_PIXEL_BYTES: u64 = 128 << 20;
/// Most rows of an image.
pub(crate) const MOST_ROWS: u16 = 12;

/// How a terminal shows images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// kitty's, with cells that stand for parts of an image, so that it scrolls as text does.
    Kitty,
    Sixel,
}

/// A terminal that shows images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graphics {
    pub protocol: Protocol,
    /// Width and height of a cell in pixels.
    pub cell: (u16, u16),
}

/// An image file.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Its width and height.
    pub pixels: (u32, u32),
    /// `None` where the terminal shows no images.
    pub scaled: Option<ScaledPicture>,
}

/// An image in the size of its place.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaledPicture {
    /// Its number in kitty's protocol.
    id: u32,
    /// Its columns and rows.
    size: (u16, u16),
    protocol: Protocol,
    /// What the terminal is sent: once before the first frame with it (kitty), or in its place.
    data: String,
}

/// Where a sixel image is on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PicturePlace {
    id: u32,
    area: Rect,
    /// A screen of another size was cleared.
    screen: Rect,
}

/// Images that are to be read.
#[derive(Clone, Debug, PartialEq)]
pub struct PictureRequest {
    graphics: Option<Graphics>,
    room: (u16, u16),
    paths: Vec<String>,
}

/// The images that messages name.
#[derive(Clone, Debug, Default)]
pub struct Pictures {
    /// `None` where the terminal shows no images.
    pub graphics: Option<Graphics>,
    /// Columns and rows that one may have.
    room: (u16, u16),
    /// By their paths; `None` before one is read, and where it cannot be read.
    known: HashMap<String, Option<Picture>>,
    wanted: Vec<String>,
    /// Sixel images that the latest frame had.
    pub places: Vec<PicturePlace>,
}

impl Pictures {
    /// Sets how many columns and rows an image may have; those of another size are read again.
    pub fn fit(&mut self, columns: u16, rows: u16) {
        let room = (columns, rows.min(MOST_ROWS));
        if self.room != room {
            *self = Self { graphics: self.graphics, room, ..Self::default() };
        }
    }

    /// The size of the terminal's cells may have changed, as where its font is another.
    pub fn rescale(&mut self, cell: Option<(u16, u16)>) {
        if let (Some(graphics), Some(cell)) = (&mut self.graphics, cell)
            && graphics.cell != cell
        {
            graphics.cell = cell;
            self.forget();
        }
    }

    /// Has all images read again for the next frame: the terminal may have lost what it was sent.
    pub fn forget(&mut self) {
        self.room = (0, 0);
    }

    /// Has an image read, if it is a file of this machine by its name.
    pub fn want(&mut self, path: &str) {
        if !self.known.contains_key(path) && is_local(path) {
            self.known.insert(path.to_string(), None);
            self.wanted.push(path.to_string());
        }
    }

    /// The images to read since the last call.
    pub fn request(&mut self) -> Option<PictureRequest> {
        let paths = std::mem::take(&mut self.wanted);
        let request = PictureRequest { graphics: self.graphics, room: self.room, paths };
        (!request.paths.is_empty()).then_some(request)
    }

    /// Takes the images that were read; what the terminal is to be sent first. Those of a size that
    /// is not asked for any more are dropped.
    pub fn take(&mut self, request: PictureRequest, read: Vec<Option<Picture>>) -> String {
        let mut first = String::new();
        if request.room == self.room {
            for (path, picture) in request.paths.into_iter().zip(read) {
                let scaled = picture.as_ref().and_then(|picture| picture.scaled.as_ref());
                let once = scaled.filter(|scaled| scaled.protocol == Protocol::Kitty);
                first.push_str(once.map_or("", |scaled| &scaled.data));
                self.known.insert(path, picture);
            }
        }
        first
    }

    /// An image, once it was read.
    pub fn get(&self, path: &str) -> Option<&Picture> {
        self.known.get(path)?.as_ref()
    }

    /// The rows of an image.
    pub fn rows(&self, path: &str) -> u16 {
        let scaled = self.get(path).and_then(|picture| picture.scaled.as_ref());
        scaled.map_or(0, |scaled| scaled.size.1)
    }
}

/// Whether Windows may look for it on another computer: `\\host\share` with slashes of either kind,
/// and the forms that pass a name on to the system.
fn is_share(path: &str) -> bool {
    let path = path.replace('\\', "/");
    path.starts_with("//") || path.starts_with("/??/")
}

/// Whether it may name an image file of this machine: neither an address nor a network's share.
fn is_local(path: &str) -> bool {
    let kind = Path::new(path).extension().and_then(|kind| kind.to_str()).unwrap_or_default();
    let is_image = ["png", "jpg", "jpeg"].iter().any(|known| kind.eq_ignore_ascii_case(known));
    is_image && !path.contains("://") && !is_share(path)
}

impl PictureRequest {
    /// Reads the images, one after the other; `None` for each that cannot be shown.
    pub fn read(&self) -> Vec<Option<Picture>> {
        self.paths.iter().map(|path| caught(|| self.one(path)).flatten()).collect()
    }

    fn one(&self, path: &str) -> Option<Picture> {
        let bytes = read_regular(&expanded(path), LARGEST).ok()?;
        let reader = || {
            let mut reader = ImageReader::new(Cursor::new(&bytes)).with_guessed_format().ok()?;
            let mut limits = Limits::default();
            limits.max_alloc = Some(MOST_PIXEL_BYTES);
            reader.limits(limits);
            Some(reader)
        };
        let pixels = reader()?.into_dimensions().ok()?;
        let Some(graphics) = self.graphics else { return Some(Picture { pixels, scaled: None }) };
        if u64::from(pixels.0) * u64::from(pixels.1) * 4 > MOST_PIXEL_BYTES {
            return None;
        }
        let scaled = ScaledPicture::new(reader()?.decode().ok()?, self.room, graphics);
        Some(Picture { pixels, scaled })
    }
}

impl ScaledPicture {
    /// No larger than its room, and no larger than it is.
    fn new(image: DynamicImage, room: (u16, u16), graphics: Graphics) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let Graphics { protocol, cell } = graphics;
        let [width, height] = [(room.0, cell.0), (room.1, cell.1)]
            .map(|(cells, of)| u32::from(cells) * u32::from(of));
        let fits = image.width() <= width && image.height() <= height;
        let image = if fits { image } else { image.thumbnail(width, height) }.to_rgba8();
        let cells = |pixels: u32, of: u16| pixels.div_ceil(u32::from(of)) as u16;
        let size = (cells(image.width(), cell.0), cells(image.height(), cell.1));
        // 24 bits, which are a colour; those of other programs on the terminal are others.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed) & 0xff;
        let id = (std::process::id() << 8 | number) & 0x00ff_ffff;
        let data = match protocol {
            Protocol::Kitty => kitty(&image, id, size)?,
            Protocol::Sixel => sixel(&image, size),
        };
        Some(Self { id, size, protocol, data })
    }

    /// Draws row `row` at the top of `area`, which ends where the conversation does. Of a sixel
    /// image that is not seen whole nothing is drawn; one that the frame before had in the same
    /// place is on the screen already, and its data are long. Returns where a sixel image is now.
    pub fn draw(
        &self,
        row: u16,
        area: Rect,
        before: &[PicturePlace],
        buffer: &mut Buffer,
    ) -> Option<PicturePlace> {
        let (columns, rows) = self.size;
        match self.protocol {
            Protocol::Kitty => {
                let [_, red, green, blue] = self.id.to_be_bytes();
                let line = Rect { height: 1, width: columns.min(area.width), ..area };
                for (at, place) in line.positions().enumerate() {
                    // The first cell has the number of the row; the others continue it.
                    let row = if at == 0 { ROW_MARKS.get(usize::from(row)) } else { None };
                    let symbol: String = std::iter::once(&'\u{10eeee}').chain(row).collect();
                    let cell = &mut buffer[place];
                    cell.set_symbol(&symbol).set_fg(Color::Rgb(red, green, blue));
                }
                None
            }
            Protocol::Sixel if row == 0 && columns <= area.width && rows <= area.height => {
                let area = Rect { width: columns, height: rows, ..area };
                for place in area.positions() {
                    buffer[place].set_diff_option(CellDiffOption::Skip);
                }
                let place = PicturePlace { id: self.id, area, screen: buffer.area };
                if !before.contains(&place) {
                    let first = &mut buffer[area.as_position()];
                    first.set_symbol(&self.data);
                    first.set_diff_option(CellDiffOption::ForcedWidth(NonZeroU16::MIN));
                }
                Some(place)
            }
            Protocol::Sixel => None,
        }
    }
}

/// The marks of the first rows in kitty's protocol.
const ROW_MARKS: [char; MOST_ROWS as usize] = [
    '\u{305}', '\u{30d}', '\u{30e}', '\u{310}', '\u{312}', '\u{33d}', '\u{33e}', '\u{33f}',
    '\u{346}', '\u{34a}', '\u{34b}', '\u{34c}',
];

/// The image for kitty's protocol, to be shown where cells stand for it. The terminal answers
/// nothing.
fn kitty(image: &RgbaImage, id: u32, (columns, rows): (u16, u16)) -> Option<String> {
    /// Most bytes of a piece.
    const PIECE: usize = 4096;
    let mut png = Vec::new();
    image.write_to(&mut Cursor::new(&mut png), ImageFormat::Png).ok()?;
    let mut rest = BASE64_STANDARD.encode(png);
    let mut out = String::new();
    let mut head = format!("a=T,U=1,f=100,i={id},c={columns},r={rows},");
    while !rest.is_empty() {
        let after = rest.split_off(rest.len().min(PIECE));
        let more = u8::from(!after.is_empty());
        let _ = write!(out, "\x1b_G{}q=2,m={more};{rest}\x1b\\", std::mem::take(&mut head));
        rest = after;
    }
    Some(out)
}

/// The image as sixels of 216 colours, dithered, over cells that are cleared.
fn sixel(image: &RgbaImage, (columns, rows): (u16, u16)) -> String {
    const STEPS: u32 = 5;
    const DITHER: [[u32; 4]; 4] = [[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]];
    let (width, height) = image.dimensions();
    let mut out = String::from("\x1b7");
    for _ in 0..rows {
        let _ = write!(out, "\x1b[{columns}X\x1b[B");
    }
    let _ = write!(out, "\x1b8\x1bP0;1q\"1;1;{width};{height}");
    for colour in 0..(STEPS + 1).pow(3) {
        let [red, green, blue] = [colour / 36, colour / 6 % 6, colour % 6].map(|c| c * 20);
        let _ = write!(out, "#{colour};2;{red};{green};{blue}");
    }
    for top in (0..height).step_by(6) {
        if top > 0 {
            out.push('-');
        }
        // The pixels of each colour in a band of six rows.
        let mut bands = BTreeMap::<u32, Vec<u8>>::new();
        for (x, y) in (top..height.min(top + 6)).flat_map(|y| (0..width).map(move |x| (x, y))) {
            let [red, green, blue, alpha] = image.get_pixel(x, y).0.map(u32::from);
            if alpha >= 128 {
                let more = DITHER[y as usize % 4][x as usize % 4] * 16 + 8;
                let [red, green, blue] = [red, green, blue].map(|c| (c * STEPS + more) / 256);
                let band = bands.entry(red * 36 + green * 6 + blue);
                band.or_insert_with(|| vec![0; width as usize])[x as usize] |= 1 << (y - top);
            }
        }
        for (colour, band) in bands {
            let _ = write!(out, "#{colour}");
            for run in band.chunk_by(|a, b| a == b) {
                let sixel = char::from(63 + run[0]);
                match run.len() {
                    few @ ..4 => out.extend(std::iter::repeat_n(sixel, few)),
                    many => _ = write!(out, "!{many}{sixel}"),
                }
            }
            out.push('$');
        }
    }
    out + "\x1b\\"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal(protocol: Protocol) -> Option<Graphics> {
        Some(Graphics { protocol, cell: (10, 20) })
    }

    fn pictures(graphics: Option<Graphics>, paths: &[&str]) -> (Pictures, String) {
        let mut pictures = Pictures { graphics, ..Pictures::default() };
        pictures.fit(30, 40);
        paths.iter().for_each(|path| pictures.want(path));
        let Some(request) = pictures.request() else { return (pictures, String::new()) };
        assert_eq!(pictures.request(), None, "each is read once");
        let read = request.read();
        let first = pictures.take(request, read);
        (pictures, first)
    }

    /// The text of a buffer in which the image is drawn from its row `row` on.
    fn drawn(pictures: &mut Pictures, path: &str, row: u16, area: Rect) -> Buffer {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 40, 14));
        let before = std::mem::take(&mut pictures.places);
        let scaled = pictures.get(path).and_then(|picture| picture.scaled.clone()).unwrap();
        for at in row..pictures.rows(path) {
            let place = Rect { y: area.y + at - row, height: area.height - (at - row), ..area };
            if !place.is_empty() {
                pictures.places.extend(scaled.draw(at, place, &before, &mut buffer));
            }
        }
        buffer
    }

    #[test]
    fn an_image_is_scaled_to_its_room_and_drawn_as_the_terminal_shows_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("red.png").display().to_string();
        RgbaImage::from_pixel(700, 100, image::Rgba([255, 0, 0, 255])).save(&path).unwrap();

        let (mut kitty, first) = pictures(terminal(Protocol::Kitty), &[&path]);
        assert_eq!(kitty.get(&path).unwrap().pixels, (700, 100));
        // 300 pixels of width are left, and 43 of height.
        assert_eq!(kitty.rows(&path), 3);
        assert!(first.starts_with("\x1b_Ga=T,U=1,f=100,i="), "{first}");
        assert!(first.contains(",c=30,r=3,q=2,m=0;") && first.ends_with("\x1b\\"), "{first}");
        let place = Rect::new(3, 1, 37, 13);
        // Its first row is above the conversation.
        let buffer = drawn(&mut kitty, &path, 1, place);
        let symbols =
            [(3, 1), (4, 1), (3, 2), (32, 2), (33, 2), (3, 3)].map(|at| buffer[at].symbol());
        let bare = "\u{10eeee}";
        assert_eq!(symbols, ["\u{10eeee}\u{30d}", bare, "\u{10eeee}\u{30e}", bare, " ", " "]);
        assert!(matches!(buffer[(3, 1)].fg, Color::Rgb(..)));

        let (mut sixel, first) = pictures(terminal(Protocol::Sixel), &[&path]);
        assert_eq!(first, "");
        let buffer = drawn(&mut sixel, &path, 0, place);
        let symbol = buffer[(3, 1)].symbol();
        assert!(symbol.contains("\x1bP0;1q\"1;1;300;43"), "{symbol}");
        assert!(symbol.contains("#180!300~$-"), "{symbol}");
        assert_eq!(buffer[(32, 3)].diff_option, CellDiffOption::Skip);
        assert_eq!(buffer[(33, 3)].diff_option, CellDiffOption::None);
        // The next frame leaves it there; in another place it is drawn again.
        assert_eq!(drawn(&mut sixel, &path, 0, place)[(3, 1)].diff_option, CellDiffOption::Skip);
        let lower = Rect { y: 2, height: 12, ..place };
        assert_eq!(drawn(&mut sixel, &path, 0, lower)[(3, 2)].symbol(), symbol);
        // It is not drawn in part.
        for (row, place) in [(1, place), (0, Rect { height: 2, ..place })] {
            assert_eq!(
                drawn(&mut sixel, &path, row, place),
                Buffer::empty(Rect::new(0, 0, 40, 14))
            );
        }

        let (none, first) = pictures(None, &[&path]);
        assert_eq!((none.rows(&path), first.as_str()), (0, ""));
        assert_eq!(none.get(&path).unwrap().pixels, (700, 100));
    }

    #[test]
    fn only_image_files_of_this_machine_are_read_and_none_of_another_size_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("text.png"), "no image").unwrap();
        RgbaImage::new(8, 8).save(path("none.png")).unwrap();
        std::fs::rename(path("none.png"), path("none.txt")).unwrap();
        std::fs::create_dir(path("folder.png")).unwrap();
        // A header of 60,000 × 60,000 pixels.
        let mut header = std::fs::read(path("none.txt")).unwrap();
        header[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
        std::fs::write(path("large.png"), header).unwrap();
        let names = ["text.png", "none.txt", "folder.png", "large.png", "missing.png"].map(path);
        let mut names: Vec<_> = names.iter().map(String::as_str).collect();
        names.extend(["https://a.org/b.png", "//server/a.png", "\\\\server\\a.png", "/dev/zero"]);
        names.extend(["/\\server\\a.png", "\\/server/a.png", "\\??\\UNC\\server\\a.png"]);
        assert!(names[9..].iter().all(|name| *name == "/dev/zero" || is_share(name)));
        let (pictures, first) = pictures(terminal(Protocol::Kitty), &names);
        assert_eq!(first, "");
        for name in names {
            assert_eq!(pictures.get(name), None, "{name}");
        }

        let mut pictures = Pictures::default();
        pictures.fit(30, 8);
        pictures.want("a.png");
        let request = pictures.request().unwrap();
        pictures.fit(40, 8);
        let picture = Picture { pixels: (1, 1), scaled: None };
        pictures.take(request, vec![Some(picture)]);
        assert_eq!(pictures.get("a.png"), None);
        // Nor is one of another size of cells.
        let (mut pictures, _) = self::pictures(terminal(Protocol::Kitty), &["missing.png"]);
        pictures.rescale(Some((10, 20)));
        pictures.fit(30, 40);
        pictures.want("missing.png");
        assert_eq!(pictures.request(), None);
        pictures.rescale(Some((8, 16)));
        pictures.fit(30, 40);
        pictures.want("missing.png");
        assert!(pictures.request().is_some());
    }
}
