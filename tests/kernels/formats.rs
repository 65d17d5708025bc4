//! Every weight format against recorded blocks and the values that ggml computes for them.

use dovetail::kernels::*;
use safetensors::SafeTensors;
use serde_json::Value;

use super::{bits, numbers, product, random_matrix, repacked_matrix};
use crate::support::kernels::top;

/// The recorded blocks of one format.
struct Vectors {
    format: Format,
    bytes: Vec<u8>,
    /// Hash of the bits of all values.
    hash: u64,
    /// Some blocks with their values.
    values: Vec<(usize, Vec<f32>)>,
}

fn vectors() -> Vec<Vectors> {
    let file = std::fs::read(top().join("tests/golden/quants.safetensors")).unwrap();
    let all = SafeTensors::deserialize(&file).unwrap();
    let (_, header) = SafeTensors::read_metadata(&file).unwrap();
    let read = |(name, meta): (&String, &String)| {
        let meta: Value = serde_json::from_str(meta).unwrap();
        let format = Format::from_ggml(meta["type"].as_u64().unwrap() as u32).unwrap();
        assert_eq!(format.name(), name);
        assert_eq!(format.block() as u64, meta["block"]);
        assert_eq!(format.block_bytes() as u64, meta["bytes"]);
        let values = all.tensor(&format!("{name}.values")).unwrap();
        let width = values.shape()[1];
        let floats = values.data().as_chunks().0.iter().map(|&word| f32::from_le_bytes(word));
        let floats: Vec<f32> = floats.collect();
        let rows = meta["rows"].as_array().unwrap().iter().map(|row| row.as_u64().unwrap());
        Vectors {
            format,
            bytes: all.tensor(&format!("{name}.bytes")).unwrap().data().to_vec(),
            hash: u64::from_str_radix(meta["hash"].as_str().unwrap(), 16).unwrap(),
            values: rows.map(|row| row as usize).zip(floats.chunks(width).map(Vec::from)).collect(),
        }
    };
    let mut all: Vec<Vectors> = header.metadata().as_ref().unwrap().iter().map(read).collect();
    all.sort_by_key(|vectors| vectors.format as usize);
    all
}

impl Vectors {
    /// The blocks as rows of 512 columns.
    fn matrix(&self, pool: &Pool) -> Matrix {
        self.packed(false, pool)
    }

    fn packed(&self, repack: bool, pool: &Pool) -> Matrix {
        let row = self.format.row_bytes(512).unwrap();
        let rows = self.bytes.len() / row;
        let at = |i| &self.bytes[i * row..][..row];
        Matrix::pack_rows(self.format, rows, 512, at, repack, pool).unwrap()
    }

    fn floats(&self, pool: &Pool) -> Vec<f32> {
        Self::values_of(&self.matrix(pool))
    }

    fn values_of(matrix: &Matrix) -> Vec<f32> {
        let mut all = vec![0.0; matrix.outputs() * 512];
        for (i, row) in all.chunks_exact_mut(512).enumerate() {
            matrix.row(i, row);
        }
        all
    }
}

#[test]
fn a_row_of_a_file_expands_to_the_bits_of_the_packed_row() {
    let pool = Pool::new(1);
    for vectors in vectors() {
        let mut found = vec![0.0; 512];
        let rows = vectors.bytes.chunks_exact(vectors.format.row_bytes(512).unwrap());
        for (row, expected) in rows.zip(vectors.floats(&pool).chunks_exact(512)) {
            expand_row(vectors.format, row, &mut found);
            assert_eq!(bits(&found), bits(expected), "{}", vectors.format);
        }
    }
}

/// Packed weights are stored on users' disks. If this test fails, the bytes of a format have
/// changed: raise `LAYOUT_VERSION`, so that stored weights are packed again, and record the new
/// bytes.
#[test]
fn the_packed_bytes_of_every_format_are_those_of_the_layouts_version() {
    let pool = Pool::new(2);
    let line = |name: String, matrix: Matrix| {
        let hash = matrix.packed().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{name:8} {:6} {hash:016x}", matrix.packed().len())
    };
    let expanded = |format: &Format| format.storage() == Storage::Expanded;
    let lines = Format::ALL
        .into_iter()
        .map(|format| line(format.to_string(), random_matrix(format, 19, 512, 5, &pool)));
    let repacked = Format::ALL.into_iter().filter(expanded).map(|format| {
        line(format!("{format}, repacked"), repacked_matrix(format, 19, 512, 5, &pool))
    });
    let lines: Vec<String> = lines.chain(repacked).collect();
    // The builds for other processors have this test in another module.
    insta::with_settings!({ prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(format!("packed_layout_{LAYOUT_VERSION}"), lines.join("\n"));
    });
}

#[test]
fn every_block_has_the_recorded_values_in_every_bit() {
    let pool = Pool::new(1);
    let all = vectors();
    // The only format without recorded blocks is F32, whose blocks are the values themselves.
    assert_eq!(all.len() + 1, Format::ALL.len());
    for vectors in all {
        let got = vectors.floats(&pool);
        for (block, expected) in &vectors.values {
            let got = &got[block * expected.len()..][..expected.len()];
            assert_eq!(bits(got), bits(expected), "{} block {block}", vectors.format);
        }
        let hash = got.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, value| {
            (hash ^ u64::from(value.to_bits())).wrapping_mul(0x0100_0000_01b3)
        });
        assert_eq!(hash, vectors.hash, "{}: a block beside the first", vectors.format);
        let repacked = Vectors::values_of(&vectors.packed(true, &pool));
        assert_eq!(bits(&repacked), bits(&got), "{}, repacked", vectors.format);
    }
}

/// Including scales at the ends of their range, as in random blocks.
#[test]
fn products_of_recorded_blocks_are_the_same_bits_everywhere() {
    let portable = Pool::with_isa(1, Isa::Portable);
    for vectors in vectors() {
        let matrix = vectors.matrix(&portable);
        let x = numbers(9 * 512, 3);
        let expected = product(&portable, &matrix, &x);
        let repacked = vectors.packed(true, &portable);
        for pool in super::pools() {
            let y = product(&pool, &repacked, &x);
            assert_eq!(bits(&y), bits(&expected), "{}, repacked, {pool:?}", vectors.format);
            let y = product(&pool, &matrix, &x);
            assert_eq!(bits(&y), bits(&expected), "{} {pool:?}", vectors.format);
            let alone = product(&pool, &matrix, &x[8 * 512..]);
            let last = &expected[8 * matrix.outputs()..];
            assert_eq!(bits(&alone), bits(last), "{}, a row alone", vectors.format);
        }
    }
}

#[test]
fn products_of_recorded_blocks_are_near_the_exact_ones() {
    let pool = Pool::new(1);
    // The recorded floats are arbitrary bit patterns, so their products overflow.
    let quantised = |vectors: &Vectors| vectors.format.storage() != Storage::Floats;
    for vectors in vectors().into_iter().filter(quantised) {
        let weights = vectors.floats(&pool);
        let matrix = vectors.matrix(&pool);
        let x = numbers(512, 5);
        let y = product(&pool, &matrix, &x);
        // The error of each row relative to the standard deviation of a sum of its parts, because
        // the rows' scales differ by orders of magnitude.
        let mut squares = 0.0;
        for (got, weights) in y.iter().zip(weights.chunks_exact(512)) {
            let parts = || x.iter().zip(weights).map(|(x, w)| f64::from(*x) * f64::from(*w));
            let (exact, size) = (parts().sum::<f64>(), parts().map(|p| p * p).sum::<f64>());
            squares += (f64::from(*got) - exact).powi(2) / size.max(f64::MIN_POSITIVE);
        }
        let error = (squares / y.len() as f64).sqrt();
        assert!(error < 0.06, "{}: {error}", vectors.format);
    }
}

#[test]
fn the_guide_names_every_format_and_which_ones_are_repacked() {
    let page = include_str!("../../assets/docs/models.md");
    let types = |row: &'static str| row.trim_end_matches('|').rsplit('|').next().unwrap_or("");
    let (repacked, others): (Vec<&str>, Vec<&str>) = page
        .lines()
        .filter(|line| line.starts_with("| "))
        .partition(|row| row.contains("repacked") || row.contains("Repacked"));
    let named = |rows: &[&'static str], format: Format| {
        rows.iter().flat_map(|row| types(row).split(',')).any(|name| name.trim() == format.name())
    };
    for format in Format::ALL {
        let is_repacked = format.storage() == Storage::Expanded;
        let place = (named(&repacked, format), named(&others, format));
        assert_eq!(place, (is_repacked, !is_repacked), "{format} in assets/docs/models.md");
    }
}
