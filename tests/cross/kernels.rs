//! The tests under `tests/kernels`.

#[path = "../kernels/attention.rs"]
mod attention;
#[path = "../kernels/formats.rs"]
mod formats;
#[path = "../kernels/products.rs"]
mod products;
#[path = "../kernels/rowwise.rs"]
mod rowwise;
#[path = "../kernels/threads.rs"]
mod threads;

use crate::support::kernels::{
    attend, bits, numbers, pools, product, random_matrix, repacked_matrix,
};
