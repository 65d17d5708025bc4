//! Weights in fewer bits than their file has: each matrix is converted when it is requested. It
//! must not depend on what the weights are for.

use std::borrow::Cow;

use super::head::{DraftPrecision, bytes_in};
use super::{MappedBytes, RawTensor, WeightSource};
use crate::kernels::{Matrix, Pool};

/// Another source, whose wider matrices are narrowed to `precision`.
pub struct Narrowed<'a> {
    /// Where they come from.
    pub source: &'a dyn WeightSource,
    /// The most that a weight takes.
    pub precision: DraftPrecision,
    /// The threads that read them.
    pub pool: &'a Pool,
}

impl WeightSource for Narrowed<'_> {
    fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        let stored = self.source.tensor(name)?;
        let &[rows, columns] = stored.shape.as_slice() else { return Some(stored) };
        let format = self.precision.format(stored.format, columns);
        if format == stored.format {
            return Some(stored);
        }
        // What cannot be read is refused with its reason when it is packed.
        let RawTensor { format: from, bytes, .. } = &stored;
        let Ok(matrix) = Matrix::pack(*from, rows, columns, bytes, self.pool) else {
            return Some(stored);
        };
        let row = format.row_bytes(columns)?;
        let mut bytes = vec![0; rows * row];
        self.pool.chunks(&mut bytes, row, |i, to| {
            let mut values = vec![0.0; columns];
            matrix.row(i, &mut values);
            to.copy_from_slice(&bytes_in(format, &values));
        });
        Some(RawTensor { format, shape: stored.shape, bytes: Cow::Owned(bytes) })
    }

    fn mapped(&self, _: &str) -> Option<MappedBytes> {
        None
    }

    fn inner(&self) -> Option<&dyn WeightSource> {
        Some(self.source)
    }

    fn identity(&self) -> Option<String> {
        Some(format!("{}, {:?}", self.source.identity()?, self.precision))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Format, random_row};

    struct One(Format, Vec<usize>);

    impl WeightSource for One {
        fn describe(&self) -> String {
            "a test".to_owned()
        }

        fn tensor(&self, _: &str) -> Option<RawTensor<'_>> {
            let Self(format, shape) = self;
            let columns = shape[shape.len() - 1];
            let rows = shape.iter().product::<usize>() / columns;
            let bytes: Vec<u8> =
                (0..rows as u64).flat_map(|i| random_row(*format, columns, i)).collect();
            Some(RawTensor { format: *format, shape: shape.clone(), bytes: Cow::Owned(bytes) })
        }

        fn identity(&self) -> Option<String> {
            Some("one".to_owned())
        }
    }

    #[test]
    fn wider_matrices_are_narrowed_and_nothing_else() {
        let pool = Pool::new(1);
        let expected = [
            (Format::BF16, DraftPrecision::Eight, Format::Q8_0),
            (Format::BF16, DraftPrecision::Four, Format::Q4_1),
            (Format::Q6K, DraftPrecision::Four, Format::Q4_1),
            (Format::Q4K, DraftPrecision::Four, Format::Q4K),
            (Format::Q4K, DraftPrecision::Eight, Format::Q4K),
            (Format::F32, DraftPrecision::Stored, Format::F32),
        ];
        for (from, precision, to) in expected {
            let source = One(from, vec![3, 256]);
            let narrowed = Narrowed { source: &source, precision, pool: &pool };
            let tensor = narrowed.tensor("a").unwrap();
            assert_eq!(
                (tensor.format, &tensor.shape[..]),
                (to, &[3, 256][..]),
                "{from} {precision:?}"
            );
            let values = |tensor: &RawTensor<'_>| {
                let RawTensor { format, bytes, .. } = tensor;
                let matrix = Matrix::pack(*format, 3, 256, bytes, &pool).unwrap();
                let mut row = vec![0.0; 256];
                matrix.row(2, &mut row);
                row
            };
            let stored = values(&source.tensor("a").unwrap());
            let peak = stored.iter().fold(0.0f32, |peak, x| peak.max(x.abs()));
            for (a, b) in values(&tensor).iter().zip(&stored) {
                // Half a step of 4 bits.
                assert!((a - b).abs() <= peak * 0.07, "{from} {precision:?}: {a} {b}");
            }
            assert_ne!(narrowed.identity(), source.identity(), "packed weights are kept apart");
        }
        for shape in [vec![256], vec![3, 40]] {
            let source = One(Format::F32, shape);
            let precision = DraftPrecision::Four;
            let narrowed = Narrowed { source: &source, precision, pool: &pool };
            assert_eq!(narrowed.tensor("a").unwrap().format, Format::F32);
        }
    }
}
