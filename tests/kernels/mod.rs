//! The kernels compared with plain arithmetic, and bit for bit: on every instruction set, with
//! every number of threads, one row alone and in a batch.

mod accuracy;
mod attention;
mod formats;
mod products;
mod rowwise;
mod threads;

use crate::support::kernels::{
    attend, bits, numbers, pools, product, random_matrix, repacked_matrix,
};
