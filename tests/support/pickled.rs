//! Writes a PyTorch file as `torch.save` does: an archive with the pickle of a state dict and a
//! file for each storage.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use safetensors::SafeTensors;
use zip::write::SimpleFileOptions;

/// Saves the tensors of a safetensors file; flags stay flags.
pub fn pickle(from: &Path, to: &Path) {
    let bytes = std::fs::read(from).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let mut archive = zip::ZipWriter::new(File::create(to).unwrap());
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let mut list = b"\x80\x02}(".to_vec();
    for (key, (name, tensor)) in tensors.iter().enumerate() {
        let storage = match tensor.dtype() {
            safetensors::Dtype::F32 => "FloatStorage",
            safetensors::Dtype::F16 => "HalfStorage",
            safetensors::Dtype::BF16 => "BFloat16Storage",
            safetensors::Dtype::I64 => "LongStorage",
            safetensors::Dtype::BOOL => "BoolStorage",
            other => panic!("{other:?}"),
        };
        let mut strides = vec![1usize; tensor.shape().len()];
        for at in (1..strides.len()).rev() {
            strides[at - 1] = strides[at] * tensor.shape()[at];
        }
        text(&mut list, name);
        list.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        text(&mut list, "storage");
        list.extend(format!("ctorch\n{storage}\n").bytes());
        text(&mut list, &key.to_string());
        text(&mut list, "cpu");
        number(&mut list, tensor.shape().iter().product());
        list.extend(b"tQK\x00");
        for numbers in [tensor.shape(), &strides] {
            list.push(b'(');
            numbers.iter().for_each(|&n| number(&mut list, n));
            list.push(b't');
        }
        list.extend(b"\x89ccollections\nOrderedDict\n)RtR");
        archive.start_file(format!("archive/data/{key}"), options).unwrap();
        archive.write_all(tensor.data()).unwrap();
    }
    list.extend(b"u.");
    archive.start_file("archive/data.pkl", options).unwrap();
    archive.write_all(&list).unwrap();
    archive.finish().unwrap();
}

fn text(list: &mut Vec<u8>, text: &str) {
    list.push(b'X');
    list.extend((text.len() as u32).to_le_bytes());
    list.extend(text.bytes());
}

fn number(list: &mut Vec<u8>, number: usize) {
    list.push(b'J');
    list.extend((number as u32).to_le_bytes());
}
