//! A weight matrix, packed once into tiles. It deals with formats and tiles, not with what the
//! weights mean.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::block::{BLOCK, BlockCodes};
use super::format::{Format, Storage};
use super::lanes::LANES;
use super::pages::{OutOfMemory, Pages};
use super::pool::Pool;
use super::tile::TileLayout;

/// Why a matrix cannot be packed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// A row is not a whole number of blocks.
    #[error("rows of {inputs} weights cannot be {format}, which stores blocks of {block}")]
    RowLength {
        /// The format.
        format: Format,
        /// Weights per row.
        inputs: usize,
        /// Weights per block.
        block: usize,
    },
    /// There are more or fewer bytes than the shape needs.
    #[error(
        "a {format} matrix of {outputs} × {inputs} has {got} bytes instead of {expected}; the \
        file is damaged, or the program misreads its shape"
    )]
    Bytes {
        /// The format.
        format: Format,
        /// Rows.
        outputs: usize,
        /// Columns.
        inputs: usize,
        /// Bytes that the shape needs.
        expected: usize,
        /// Bytes given.
        got: usize,
    },
    /// There is not enough memory for the tiles.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
}

/// Weights `[outputs, inputs]` in the memory layout that products read, held once. Rows are padded
/// to whole tiles of 16. The quantised formats take as much memory as in a file, plus up to 5 %,
/// unless they are repacked.
pub struct Matrix {
    format: Format,
    outputs: usize,
    inputs: usize,
    /// Whether a format that would be expanded is repacked instead.
    repacked: bool,
    tile_bytes: usize,
    data: Arc<Pages>,
    /// The tiles that it consists of; `None` is all of them.
    chosen: Option<Vec<u32>>,
    scale: f32,
}

impl Matrix {
    /// Packs `bytes`: rows one after the other, little-endian, as in GGUF and safetensors files.
    ///
    /// # Errors
    /// [`PackError`].
    pub fn pack(
        format: Format,
        outputs: usize,
        inputs: usize,
        bytes: &[u8],
        pool: &Pool,
    ) -> Result<Self, PackError> {
        let row = checked_row(format, outputs, inputs, bytes.len())?;
        Self::pack_rows(format, outputs, inputs, |i| &bytes[i * row..(i + 1) * row], false, pool)
    }

    /// Packs `outputs` rows, each of [`Format::row_bytes`], which `row(i)` returns. This is for
    /// weights whose rows are stored elsewhere or in another order, such as several tensors joined
    /// into one, or a head for part of the vocabulary. With `repack`, a format that would be
    /// expanded in every product ([`Storage::Expanded`](super::Storage)) is laid out for products
    /// instead: the results are the same in every bit, and the weights take [`Matrix::growth`] more
    /// bytes.
    ///
    /// # Errors
    /// [`PackError`], which may concern a single row.
    pub fn pack_rows<'a>(
        format: Format,
        outputs: usize,
        inputs: usize,
        row: impl Fn(usize) -> &'a [u8] + Sync,
        repack: bool,
        pool: &Pool,
    ) -> Result<Self, PackError> {
        let expected = checked_row(format, 0, inputs, 0)?;
        if let Some(got) = (0..outputs).map(|i| row(i).len()).find(|&got| got != expected) {
            return Err(PackError::Bytes { format, outputs: 1, inputs, expected, got });
        }
        let layout = TileLayout::of(format, repack);
        // A size that overflows fails in the same way as a size that does not fit in memory.
        let tile_bytes = layout.tile_bytes(inputs).unwrap_or(usize::MAX);
        let bytes = outputs.div_ceil(LANES).saturating_mul(tile_bytes);
        let mut data = Pages::zeroed(bytes)?;
        pool.chunks(&mut data, tile_bytes, |t, tile| {
            let rows = t * LANES..outputs.min((t + 1) * LANES);
            let mut all = [&[][..]; LANES];
            for (to, i) in all.iter_mut().zip(rows.clone()) {
                *to = row(i);
            }
            layout.write(&all[..rows.len()], tile);
        });
        Ok(Self::of(format, [outputs, inputs], repack, tile_bytes, data))
    }

    /// Restores a matrix from the bytes that [`Matrix::packed`] returned earlier. `read(at, part)`
    /// fills the part that begins at `at`, which has [`Matrix::PART`] bytes or, at the end, what
    /// remains, and returns whether it succeeded. `None` if it failed, if memory is short, or if
    /// there is no such matrix.
    pub fn from_packed(
        format: Format,
        outputs: usize,
        inputs: usize,
        repacked: bool,
        pool: &Pool,
        read: impl Fn(usize, &mut [u8]) -> bool + Sync,
    ) -> Option<Self> {
        format.row_bytes(inputs)?;
        let tile_bytes = TileLayout::of(format, repacked).tile_bytes(inputs)?;
        let mut data = Pages::zeroed(outputs.div_ceil(LANES).checked_mul(tile_bytes)?).ok()?;
        let whole = AtomicBool::new(true);
        pool.chunks(&mut data, Self::PART, |i, part| {
            if !read(i * Self::PART, part) {
                whole.store(false, Ordering::Relaxed);
            }
        });
        let matrix = Self::of(format, [outputs, inputs], repacked, tile_bytes, data);
        whole.into_inner().then_some(matrix)
    }

    fn of(
        format: Format,
        [outputs, inputs]: [usize; 2],
        repacked: bool,
        tile_bytes: usize,
        data: Pages,
    ) -> Self {
        let data = Arc::new(data);
        Self { format, outputs, inputs, repacked, tile_bytes, data, chosen: None, scale: 1.0 }
    }

    /// Rows that are packed together.
    pub const GROUP: usize = LANES;

    /// The same weights with only these groups of [`Matrix::GROUP`] rows, in ascending order. It
    /// shares their memory, and its products have the same bits.
    ///
    /// # Panics
    /// If there is no such group.
    #[must_use]
    pub fn of_groups(&self, groups: &[u32]) -> Self {
        let last = groups.last().map_or(0, |&last| last as usize);
        assert!(last < self.tiles() && self.chosen.is_none(), "group {last} of {self:?}");
        let missing =
            if last + 1 == self.tiles() { last * LANES + LANES - self.outputs } else { 0 };
        Self {
            outputs: groups.len() * LANES - missing,
            data: Arc::clone(&self.data),
            chosen: Some(groups.to_vec()),
            ..*self
        }
    }

    /// How many bytes weights of `format` that have `bytes` in a file take in addition if they are
    /// repacked; 0 unless they would be expanded.
    pub fn growth(format: Format, bytes: u64) -> u64 {
        if format.storage() != Storage::Expanded {
            return 0;
        }
        let superblock = TileLayout::of(format, true).superblock_bytes();
        let per_weight = superblock as f64 / (BLOCK * LANES) as f64;
        (bytes as f64 * (per_weight / format.bytes_per_weight() - 1.0)) as u64
    }

    /// Bytes in a part of [`Matrix::packed`]: few enough to stay in a core's cache.
    pub const PART: usize = 256 << 10;

    /// All bytes, in this version of the layout ([`LAYOUT_VERSION`](super::LAYOUT_VERSION)), even
    /// those of groups that were not chosen.
    pub fn packed(&self) -> &[u8] {
        &self.data
    }

    /// Whether its first, middle and last sixteen rows equal what packing these rows gives.
    pub fn agrees_with<'a>(&self, row: impl Fn(usize) -> &'a [u8]) -> bool {
        let layout = self.layout();
        let last = self.tiles().saturating_sub(1);
        let mut tile = vec![0; self.tile_bytes];
        self.outputs == 0
            || [0, last / 2, last].into_iter().all(|t| {
                let rows = t * LANES..self.outputs.min((t + 1) * LANES);
                let rows: Vec<&[u8]> = rows.map(&row).collect();
                tile.fill(0);
                rows.iter().all(|row| Some(row.len()) == self.format.row_bytes(self.inputs)) && {
                    layout.write(&rows, &mut tile);
                    tile == self.tile(t)
                }
            })
    }

    /// Multiplies every product and row by this number at its end: weights in NVFP4 come with one.
    #[must_use]
    pub fn scaled(mut self, by: f32) -> Self {
        self.scale *= by;
        self
    }

    /// The factor that products are multiplied by.
    pub(super) fn scale(&self) -> f32 {
        self.scale
    }

    /// Rows: how many numbers a product returns for each row of activations.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Columns: how many numbers a row of activations has.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// The format it was packed from.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Bytes that a product reads: all that are held, unless groups were chosen.
    pub fn bytes(&self) -> usize {
        self.tiles() * self.tile_bytes
    }

    /// Writes row `i` as floats (an embedding), exactly as the format defines them, times the
    /// matrix's scale.
    ///
    /// # Panics
    /// If there is no row `i`, or `out` does not have [`Matrix::inputs`] floats.
    pub fn row(&self, i: usize, out: &mut [f32]) {
        assert!(i < self.outputs, "row {i} of a matrix of {}", self.outputs);
        assert_eq!(out.len(), self.inputs, "a row's floats");
        self.layout().read(self.tile(i / LANES), i % LANES, out);
        if self.scale != 1.0 {
            for x in out {
                *x *= self.scale;
            }
        }
    }

    /// Calls `take` with each block of row `i`, if they are not floats.
    ///
    /// # Panics
    /// If there is no row `i`.
    pub fn codes(&self, i: usize, take: &mut dyn FnMut(&BlockCodes)) {
        assert!(i < self.outputs, "row {i} of a matrix of {}", self.outputs);
        self.layout().codes(self.tile(i / LANES), i % LANES, take);
    }

    /// How its tiles are laid out.
    pub(super) fn layout(&self) -> TileLayout {
        TileLayout::of(self.format, self.repacked)
    }

    /// Tiles of 16 rows.
    pub(super) fn tiles(&self) -> usize {
        self.outputs.div_ceil(LANES)
    }

    /// Bytes of a tile; never 0.
    pub(super) fn tile_bytes(&self) -> usize {
        self.tile_bytes
    }

    /// The bytes of one tile.
    pub(super) fn tile(&self, t: usize) -> &[u8] {
        let t = self.chosen.as_ref().map_or(t, |tiles| tiles[t] as usize);
        &self.data[t * self.tile_bytes..(t + 1) * self.tile_bytes]
    }
}

impl std::fmt::Debug for Matrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Matrix({} {} × {})", self.format, self.outputs, self.inputs)
    }
}

/// Writes a row that is stored as in a file as floats, with the bits of [`Matrix::row`] without its
/// scale. This is slower, but nothing has to be packed.
///
/// # Panics
/// If `row` does not have as many bytes as that many floats take.
pub fn expand_row(format: Format, row: &[u8], out: &mut [f32]) {
    assert_eq!(Some(row.len()), format.row_bytes(out.len()), "a row's bytes");
    let layout = TileLayout::of(format, false);
    let mut tile = vec![0; layout.tile_bytes(out.len()).unwrap_or_default()];
    layout.write(&[row], &mut tile);
    layout.read(&tile, 0, out);
}

/// Bytes of a row of such a matrix, which has `got` bytes in a file.
///
/// # Errors
/// [`PackError`] if a matrix of this shape does not have that many bytes.
pub(crate) fn checked_row(
    format: Format,
    outputs: usize,
    inputs: usize,
    got: usize,
) -> Result<usize, PackError> {
    let block = format.block();
    let row = format.row_bytes(inputs).ok_or(PackError::RowLength { format, inputs, block })?;
    let expected = row.saturating_mul(outputs);
    if got == expected {
        return Ok(row);
    }
    Err(PackError::Bytes { format, outputs, inputs, expected, got })
}
