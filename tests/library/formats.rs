//! Every weight format in GGUF files: mixed in one file, and with wrong headers.

use crate::support::models::small_config;
use candle_core::quantized::GgmlDType;
use candle_core::{DType, Device, Tensor};
use dovetail::kernels::{Format, Matrix, Pool, random_row};
use dovetail::model::{Config, RopeLayout, Target, weights};

use crate::support::gguf::{Gguf, dims_of, gguf_name, refusal, small};
use crate::support::library::load_files;

const WIDTH: usize = 512;

/// A model with two more matrices than there are formats.
fn config() -> Config {
    Config {
        vocab: 12,
        hidden: WIDTH,
        intermediate: WIDTH,
        layers: 4,
        heads: 8,
        kv_heads: 8,
        head_dim: WIDTH / 8,
        rope_layout: RopeLayout::Interleaved,
        max_positions: 64,
        ..small_config()
    }
}

fn logits(file: &Gguf, tokens: &[u32]) -> Vec<f32> {
    let files = file.open().unwrap();
    load_files(&files, 64, 2).prefill(tokens).unwrap().logits
}

#[test]
fn a_file_may_mix_all_formats() {
    let config = config();
    let mut mixed = Gguf::with_config("llama", &config);
    let mut floats = Gguf::with_config("llama", &config);
    mixed.with_letters();
    floats.with_letters();
    let pool = Pool::new(2);
    let mut formats = Format::ALL.into_iter().cycle();
    for (number, (name, shape)) in weights::tensors(&config).into_iter().enumerate() {
        let name = gguf_name(&name);
        if shape.len() == 1 {
            let norm = Tensor::ones(shape, DType::F32, &Device::Cpu).unwrap();
            mixed.tensor(&name, &norm, GgmlDType::F32);
            floats.tensor(&name, &norm, GgmlDType::F32);
            continue;
        }
        let format = formats.next().unwrap();
        let rows = (0..shape[0]).map(|row| random_row(format, WIDTH, (number << 16 | row) as u64));
        let bytes = rows.collect::<Vec<_>>().concat();
        mixed.blocks(&name, format, [shape[0], WIDTH], &bytes);
        let matrix = Matrix::pack(format, shape[0], WIDTH, &bytes, &pool).unwrap();
        let mut values = vec![0.0; shape[0] * WIDTH];
        for (i, row) in values.chunks_exact_mut(WIDTH).enumerate() {
            matrix.row(i, row);
        }
        let values = Tensor::from_vec(values, shape, &Device::Cpu).unwrap();
        floats.tensor(&name, &values, GgmlDType::F32);
    }
    let tokens = [1, 4, 5, 7, 10, 3];
    let (got, exact) = (logits(&mixed, &tokens), logits(&floats, &tokens));
    let error: f32 = got.iter().zip(&exact).map(|(a, b)| (a - b).powi(2)).sum();
    let size: f32 = exact.iter().map(|b| b * b).sum();
    let relative = (error / size).sqrt();
    // With 8-bit activations; a block read in the wrong order would leave no similarity.
    assert!(relative < 0.06, "{relative}: {got:?} for {exact:?}");
}

#[test]
fn lying_shapes_are_refused_in_every_format() {
    for format in Format::ALL {
        let mut file = small();
        let bytes = [random_row(format, WIDTH, 1), random_row(format, WIDTH, 2)].concat();
        file.blocks("output.weight", format, [2, WIDTH], &bytes);
        let sound = file.bytes();
        file.open().unwrap();
        let at = dims_of(&sound, "output.weight");
        let with = |columns: u64, rows: u64| {
            let mut changed = sound.clone();
            changed[at..at + 8].copy_from_slice(&columns.to_le_bytes());
            changed[at + 8..at + 16].copy_from_slice(&rows.to_le_bytes());
            refusal(&changed)
        };
        let block = format.block() as u64;
        let impossible = format!(
            "is impossible in {format}, whose rows must be multiples of \
            {block}"
        );
        let mut shapes = vec![(0, 2), (WIDTH as u64, 0), (1 << 62, 1 << 62), (block << 54, 1 << 8)];
        if block > 1 {
            shapes.extend([(1, 2), (WIDTH as u64 + block / 2, 2)]);
        }
        for (columns, rows) in shapes {
            let text = with(columns, rows);
            assert!(
                text.contains(&impossible) || text.contains("of the data, but the data has"),
                "{format} {columns} × {rows}: {text}"
            );
            assert!(text.contains("`output.weight`"), "{text}");
        }
        let text = with(WIDTH as u64, 1 << 36);
        assert!(text.contains("of the data, but the data has"), "{format}: {text}");
    }
}

#[test]
fn an_unknown_type_number_is_refused_with_the_known_names() {
    let mut file = small();
    let row = random_row(Format::Q8_0, WIDTH, 1);
    file.blocks("output.weight", Format::Q8_0, [1, WIDTH], &row);
    let mut bytes = file.bytes();
    let at = dims_of(&bytes, "output.weight") + 16;
    for (number, name) in [(4u32, "type 4"), (9, "Q8_1"), (26, "I32"), (99, "type 99")] {
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        let text = refusal(&bytes);
        assert!(text.contains(name) && text.contains("Q4_1") && text.contains("IQ1_M"), "{text}");
    }
}
