//! Gemma 3 on a GPU against the reference program's logits. The recorded model's MLP is 28 wide,
//! which no kernel of the GPU supports; four more units with zero weights change none of its
//! results.

use std::sync::Arc;

use crate::support::gpu::gpu;
use crate::support::library::{arch_file, arch_recording, open_target};
use dovetail::kernels::{KvFormat, Pool};
use dovetail::library::Spec;
use dovetail::model::{Config, LoadRequest, PlacedTarget, RawTensor, Target, WeightSource};
use dovetail::speculate::Tree;

/// The number of units in the recorded MLP, and in the padded one.
const UNITS: [usize; 2] = [28, 32];

/// Weights whose MLPs have additional units that are all zero.
struct Padded<'a>(&'a dyn WeightSource);

impl WeightSource for Padded<'_> {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        let mut tensor = self.0.tensor(name)?;
        if !name.contains(".mlp.") || tensor.shape.len() < 2 {
            return Some(tensor);
        }
        let [few, many] = UNITS;
        let (rows, columns) = (tensor.shape[0], tensor.shape[1]);
        let row = tensor.bytes.len() / rows;
        let bytes: Vec<u8> = if rows == few {
            [&tensor.bytes[..], &vec![0; (many - few) * row]].concat()
        } else {
            let zeros = vec![0; (many - few) * row / columns];
            tensor.bytes.chunks(row).flat_map(|row| [row, &zeros].concat()).collect()
        };
        let pad = |n: usize| if n == few { many } else { n };
        tensor.shape = vec![pad(rows), pad(columns)];
        tensor.bytes = bytes.into();
        Some(tensor)
    }
}

#[test]
fn gemma_3_gives_the_reference_logits_on_a_gpu() {
    let Some(gpu) = gpu() else { return };
    let files = open_target(&Spec::Gguf(arch_file("gemma3.gguf"))).unwrap();
    let [few, many] = UNITS;
    assert_eq!(files.config.intermediate, few);
    let config = Config { intermediate: many, ..files.config.clone() };
    let source = Padded(files.weights.as_ref());
    let (pool, kv) = (Arc::new(Pool::new(2)), KvFormat::F32);
    let request = LoadRequest { config: &config, source: &source, pool, capacity: 192, kv };
    let (tokens, expected) = arch_recording("gemma3", "logits_exact_gelu");
    let mut chain = Tree::root(tokens[0]);
    tokens[1..].iter().enumerate().for_each(|(above, &token)| {
        chain.push(above, token, -1.0);
    });
    let stays = PlacedTarget::on_gpu(&gpu, &request, &mut |_| {});
    let streams = PlacedTarget::streamed(&gpu, &request, &mut |_| {});
    for (how, target) in [("resident", stays), ("streamed", streams)] {
        let mut target = target.unwrap();
        let found = target.verify(&chain).unwrap().logits;
        assert_eq!(found.len(), expected.len());
        let pairs = found.iter().zip(&expected);
        let off = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(off < 2e-4, "{how}: off by {off}");
    }
}
