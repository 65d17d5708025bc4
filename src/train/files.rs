//! The files of a training: whole files, tensor files, and files of JSON lines that grow. It must
//! not depend on what they hold.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Metadata, TensorInfo, View};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Result, TrainError};
use crate::files::{Access, Open, atomic_write, open_regular, read_regular};
use crate::printable::json_line;

/// Writes a file so that it appears completely or not at all, readable by other programs.
pub(super) fn whole(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    atomic_write(path, Access::Usual, fill).map_err(|error| TrainError::write(path, error))
}

/// Writes `tensors` with `metadata`, ordered by alignment and name as in the library. The library's
/// own function creates a temporary file of its own, which would remain after a kill.
pub(super) fn write_tensors<S: AsRef<str>, V: View>(
    file: impl Write,
    tensors: impl IntoIterator<Item = (S, V)>,
    metadata: Option<HashMap<String, String>>,
) -> io::Result<()> {
    const ALIGNMENT: usize = 8;
    let mut tensors: Vec<(S, V)> = tensors.into_iter().collect();
    tensors.sort_by(|(a, left), (b, right)| {
        right.dtype().cmp(&left.dtype()).then_with(|| a.as_ref().cmp(b.as_ref()))
    });
    let mut offset = 0;
    let describe = |(name, tensor): &(S, V)| {
        let from = offset;
        offset += tensor.data_len();
        let dtype = tensor.dtype();
        let shape = tensor.shape().to_vec();
        (name.as_ref().to_owned(), TensorInfo { dtype, shape, data_offsets: (from, offset) })
    };
    let infos = tensors.iter().map(describe).collect();
    let header = Metadata::new(metadata, infos).map_err(io::Error::other)?;
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
    let mut out = BufWriter::with_capacity(1 << 20, file);
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    for (_, tensor) in &tensors {
        out.write_all(&tensor.data())?;
    }
    out.flush()
}

/// The JSON lines of a file, of which there are none if it does not exist. A last line that was
/// torn by an interruption is left out.
pub(super) fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let text = match read_regular(path, u64::MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(TrainError::read(path, source)),
    };
    let complete = text.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n"));
    complete
        .map(|line| serde_json::from_slice(line).map_err(|error| TrainError::damaged(path, error)))
        .collect()
}

/// Writes a whole file of JSON lines.
pub(super) fn write_lines<T: Serialize>(path: &Path, lines: &[T]) -> Result<()> {
    whole(path, |file| {
        let mut out = BufWriter::new(file);
        for line in lines {
            out.write_all(json_line(line)?.as_bytes())?;
        }
        out.flush()
    })
}

/// A file of JSON lines that is on the disk after every line.
pub(super) struct LineFile {
    path: PathBuf,
    file: File,
}

impl LineFile {
    /// Continues the file at `path`. Returns its lines, of which only those that are to be `kept`
    /// stay in the file.
    pub fn resume<T: Serialize + DeserializeOwned>(
        path: PathBuf,
        kept: impl Fn(&T) -> bool,
    ) -> Result<(Self, Vec<T>)> {
        let mut lines = read_lines(&path)?;
        lines.retain(kept);
        write_lines(&path, &lines)?;
        let file = open_regular(&path, Open::Append(Access::Usual));
        let file = file.map_err(|source| TrainError::write(&path, source))?;
        Ok((Self { path, file }, lines))
    }

    pub fn add<T: Serialize>(&mut self, line: &T) -> Result<()> {
        let written = json_line(line)
            .map_err(io::Error::from)
            .and_then(|text| self.file.write_all(text.as_bytes()));
        written.map_err(|source| TrainError::write(&self.path, source))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use safetensors::tensor::{Dtype, TensorView};

    use super::*;

    #[test]
    fn the_bytes_are_the_librarys_own() {
        let bytes: Vec<u8> = (0..24).collect();
        let tensor =
            |dtype, shape: &[usize], data| TensorView::new(dtype, shape.to_vec(), data).unwrap();
        let tensors = [
            ("b", tensor(Dtype::F16, &[2, 3], &bytes[..12])),
            ("mask", tensor(Dtype::U8, &[3], &bytes[..3])),
            ("a", tensor(Dtype::F16, &[4], &bytes[..8])),
            ("z", tensor(Dtype::F32, &[2, 3], &bytes)),
            ("none", tensor(Dtype::F32, &[0], &[])),
        ];
        for metadata in [None, Some(HashMap::from([("key".to_owned(), "value".to_owned())]))] {
            let mut written = Vec::new();
            write_tensors(&mut written, tensors.clone(), metadata.clone()).unwrap();
            assert_eq!(written, safetensors::serialize(tensors.clone(), metadata).unwrap());
        }
    }

    #[test]
    fn lines_go_on_after_those_that_are_complete_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        assert!(read_lines::<u32>(&path).unwrap().is_empty());
        fs::write(&path, "1\n20\n3\n4").unwrap();
        let (mut file, lines) = LineFile::resume(path.clone(), |&line: &u32| line < 9).unwrap();
        assert_eq!(lines, [1, 3]);
        file.add(&5).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n3\n5\n");
        fs::write(&path, "{}\n").unwrap();
        assert!(read_lines::<u32>(&path).is_err());
    }
}
