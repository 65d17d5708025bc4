//! Functions with gradients in closed form. Candle's fused softmax, RMSNorm and RoPE have no
//! gradients, and compositions of its plain operations take several times as long. It must not
//! depend on what they are used for.

use candle_core::backend::BackendStorage;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp2, D, DType, Device, Layout, Result, Shape, Storage, Tensor,
};
use candle_nn::ops as fused;

use super::TrainPrecision;
use crate::kernels::{Strided, bf16_product, multiplies_bf16};

/// Computes the gradients of a function's two arguments from that of its result.
type Backward = dyn Fn(&Tensor) -> Result<(Option<Tensor>, Option<Tensor>)> + Send + Sync;

/// A function whose value is known.
struct Known {
    value: Tensor,
    backward: Box<Backward>,
}

/// `value` as a function of `x`; `backward` computes x's gradient from the result's.
pub(super) fn function_of<F>(x: &Tensor, value: Tensor, backward: F) -> Result<Tensor>
where
    F: Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static,
{
    let backward = Box::new(move |grad: &Tensor| Ok((Some(backward(grad)?), None)));
    x.apply_op2(x, Known { value: value.force_contiguous()?, backward })
}

/// The same with two arguments.
fn function_of_two<F>(x: &Tensor, y: &Tensor, value: Tensor, backward: F) -> Result<Tensor>
where
    F: Fn(&Tensor) -> Result<(Tensor, Tensor)> + Send + Sync + 'static,
{
    let backward = Box::new(move |grad: &Tensor| {
        let (x, y) = backward(grad)?;
        Ok((Some(x), Some(y)))
    });
    x.apply_op2(y, Known { value: value.force_contiguous()?, backward })
}

impl CustomOp2 for Known {
    fn name(&self) -> &'static str {
        "known"
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        match &*self.value.storage_and_layout().0 {
            Storage::Cpu(storage) => Ok((storage.clone(), self.value.shape().clone())),
            _ => candle_core::bail!("a value lies on another device than its argument"),
        }
    }

    fn cuda_fwd(
        &self,
        _: &CudaStorage,
        _: &Layout,
        _: &CudaStorage,
        _: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        let (storage, layout) = self.value.storage_and_layout();
        match &*storage {
            Storage::Cuda(storage) => Ok((storage.try_clone(layout)?, self.value.shape().clone())),
            _ => candle_core::bail!("a value lies on another device than its argument"),
        }
    }

    fn bwd(
        &self,
        _: &Tensor,
        _: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        (self.backward)(grad)
    }
}

/// How matrix products are computed. Their arguments and results are f32, and so are their sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Products {
    /// In f32.
    #[default]
    F32,
    /// In bf16 by candle, which rounds the results too.
    Gpu,
    /// In bf16 by the processor.
    Cpu,
    /// In f32 with arguments that are rounded to bf16, where the processor cannot multiply them.
    Rounded,
}

impl Products {
    /// What `precision` means on `device`.
    pub fn of(precision: TrainPrecision, device: &Device) -> Self {
        match (precision, device) {
            (TrainPrecision::F32, _) => Self::F32,
            (_, Device::Cpu) if multiplies_bf16() => Self::Cpu,
            (TrainPrecision::Bf16, Device::Cpu) => Self::Rounded,
            (TrainPrecision::Auto, device) if !device.is_cuda() => Self::F32,
            _ => Self::Gpu,
        }
    }

    /// What products read instead of `x`, for several of them.
    pub fn argument(self, x: &Tensor) -> Result<Tensor> {
        let x = x.detach();
        match self {
            Self::F32 | Self::Cpu => Ok(x),
            Self::Gpu => x.to_dtype(DType::BF16),
            Self::Rounded => x.to_dtype(DType::BF16)?.to_dtype(DType::F32),
        }
    }

    /// a · b of [`Self::argument`]s, without gradients.
    pub fn plain(self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        match self {
            Self::F32 | Self::Rounded => a.matmul(b),
            Self::Gpu => a.matmul(b)?.to_dtype(DType::F32),
            Self::Cpu => a.apply_op2_no_bwd(b, &Bf16Product),
        }
    }

    /// a · b of matrices, or of as many in a batch.
    pub fn matmul(self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let a0 = self.argument(a)?;
        let b0 = self.argument(b)?;
        let value = self.plain(&a0, &b0)?;
        function_of_two(a, b, value, move |grad| {
            let grad = self.argument(grad)?;
            Ok((self.plain(&grad, &b0.t()?)?, self.plain(&a0.t()?, &grad)?))
        })
    }

    /// x · Wᵀ for `x` `[n, in]` and `w` `[out, in]`. Candle computes the gradient of a transposed
    /// weight as that of the transpose and adds it up element by element, against the memory order.
    pub fn linear(self, x: &Tensor, w: &Tensor) -> Result<Tensor> {
        let x0 = self.argument(x)?;
        let w0 = self.argument(w)?;
        let value = self.plain(&x0, &w0.t()?)?;
        function_of_two(x, w, value, move |grad| {
            let grad = self.argument(grad)?;
            Ok((self.plain(&grad, &w0)?, self.plain(&grad.t()?, &x0)?))
        })
    }

    /// The same for an `x` that does not depend on weights: only `w` has a gradient.
    pub fn linear_of(self, x: &Tensor, w: &Tensor) -> Result<Tensor> {
        let x0 = self.argument(x)?;
        let value = self.plain(&x0, &self.argument(w)?.t()?)?;
        function_of(w, value, move |grad| self.plain(&self.argument(grad)?.t()?, &x0))
    }
}

/// a · b of matrices in bf16, or of as many in a batch, by the processor.
struct Bf16Product;

impl CustomOp2 for Bf16Product {
    fn name(&self) -> &'static str {
        "bf16-product"
    }

    fn cpu_fwd(
        &self,
        a: &CpuStorage,
        a_at: &Layout,
        b: &CpuStorage,
        b_at: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (CpuStorage::F32(a), CpuStorage::F32(b)) = (a, b) else {
            candle_core::bail!("a product in bf16 reads f32")
        };
        let (Some((a_batch, a_size)), Some((b_batch, b_size))) =
            (a_at.dims().split_last_chunk::<2>(), b_at.dims().split_last_chunk::<2>())
        else {
            candle_core::bail!("a product is one of matrices")
        };
        if a_batch != b_batch || a_batch.len() > 1 || a_size[1] != b_size[0] {
            candle_core::bail!("a product of {a_at:?} and {b_at:?}")
        }
        let batch = a_batch.first().copied().unwrap_or(1);
        let (rows, columns) = (a_size[0], b_size[1]);
        let mut out = vec![0f32; batch * rows * columns];
        for (number, out) in out.chunks_exact_mut((rows * columns).max(1)).enumerate() {
            let done = bf16_product(matrix(a, a_at, number), matrix(b, b_at, number), out);
            if !done {
                candle_core::bail!("this processor has no product in bf16")
            }
        }
        let shape: Vec<usize> = a_batch.iter().copied().chain([rows, columns]).collect();
        Ok((CpuStorage::F32(out), shape.into()))
    }
}

/// The matrix of this number in a batch.
fn matrix<'a>(numbers: &'a [f32], at: &Layout, number: usize) -> Strided<'a> {
    let last = |all: &[usize]| all.last_chunk().copied().unwrap_or_default();
    let apart = if at.dims().len() > 2 { at.stride()[0] } else { 0 };
    let data = &numbers[at.start_offset() + number * apart..];
    Strided { data, size: last(at.dims()), strides: last(at.stride()) }
}

/// RMSNorm of the rows of `x` `[rows, H]` with `weight` `[H]`.
pub(super) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    let x0 = x.detach().contiguous()?;
    let w0 = weight.detach();
    let value = fused::rms_norm(&x0, &w0, eps)?;
    function_of_two(x, weight, value, move |grad| {
        let inverse = ((x0.sqr()?.mean_keepdim(D::Minus1)? + f64::from(eps))?.sqrt()?).recip()?;
        let unit = x0.broadcast_mul(&inverse)?;
        let along = (grad * &unit)?;
        let by_weight = grad.broadcast_mul(&w0)?;
        let share = along.broadcast_mul(&w0)?.mean_keepdim(D::Minus1)?;
        let dx = (by_weight - unit.broadcast_mul(&share)?)?.broadcast_mul(&inverse)?;
        Ok((dx, along.sum(0)?))
    })
}

/// Rotates the pairs of components of `x` `[batch, heads, rows, d]` by `cos`, `sin` `[rows, d /
/// 2]`.
pub(super) fn rotate(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    let x0 = x.detach().contiguous()?;
    let value = candle_nn::rotary_emb::rope(&x0, cos, sin)?;
    let cos = cos.clone();
    let back = sin.neg()?;
    function_of(x, value, move |grad| candle_nn::rotary_emb::rope(&grad.contiguous()?, &cos, &back))
}

/// softmax(x · scale + mask) over the last dimension; `mask` is broadcast.
pub(super) fn masked_softmax(x: &Tensor, scale: f64, mask: &Tensor) -> Result<Tensor> {
    let scores = (x.detach() * scale)?.broadcast_add(mask)?;
    let value = fused::softmax_last_dim(&scores)?;
    let shares = value.clone();
    function_of(x, value, move |grad| {
        let weighed = (grad * &shares)?;
        let sum = weighed.sum_keepdim(D::Minus1)?;
        (weighed - shares.broadcast_mul(&sum)?)? * scale
    })
}

/// SiLU(gate) ⊙ up.
pub(super) fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    let gate0 = gate.detach();
    let up0 = up.detach();
    let sigmoid = fused::sigmoid(&gate0)?;
    let silu = (&gate0 * &sigmoid)?;
    let value = (&silu * &up0)?;
    function_of_two(gate, up, value, move |grad| {
        let d_up = (grad * &silu)?;
        // SiLU′ = σ + silu · (1 − σ)
        let slope = (&sigmoid + (&silu - (&silu * &sigmoid)?)?)?;
        Ok((((grad * &up0)? * slope)?, d_up))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Var;

    #[test]
    fn products_in_bf16_round_what_they_read_and_leave_the_weights() {
        let rounded = |x: &Tensor| Products::Rounded.argument(x).unwrap();
        let near = |a: &Tensor, b: &Tensor| {
            let off = (a - b).unwrap().abs().unwrap().max_all().unwrap();
            off.to_scalar::<f32>().unwrap() < 1e-5
        };
        let [x, w, weights] = [wave(&[3, 8], 0.0), wave(&[5, 8], 0.4), wave(&[3, 5], 1.0)];
        let exact = x.matmul(&w.t().unwrap()).unwrap();
        let ways = [Products::Rounded, Products::of(TrainPrecision::Bf16, &Device::Cpu)];
        for products in ways {
            let value = products.linear(&x, &w).unwrap();
            assert!(near(&value, &rounded(&x).matmul(&rounded(&w).t().unwrap()).unwrap()));
            assert!(!near(&value, &exact), "{products:?}");
            let grads = (&value * weights.as_tensor()).unwrap().sum_all().unwrap();
            let grads = grads.backward().unwrap();
            let by_w = grads.get(&w).unwrap();
            let expected = rounded(&weights).t().unwrap().matmul(&rounded(&x)).unwrap();
            assert!(near(by_w, &expected), "{products:?}");
            assert_eq!((w.dtype(), by_w.dtype()), (DType::F32, DType::F32));
            let [a, b] = [wave(&[2, 3, 4], 0.1), wave(&[2, 5, 4], 0.9)];
            let found = products.matmul(&a, &b.t().unwrap()).unwrap();
            let expected = rounded(&a).matmul(&rounded(&b).t().unwrap()).unwrap();
            assert!(near(&found, &expected), "{products:?}");
        }
        let auto = Products::of(TrainPrecision::Auto, &Device::Cpu);
        let faster = if multiplies_bf16() { Products::Cpu } else { Products::F32 };
        assert_eq!(auto, faster);
    }

    fn wave(shape: &[usize], phase: f64) -> Var {
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|i| (i as f64 * 0.7 + phase).sin() as f32).collect();
        Var::from_tensor(&Tensor::from_vec(values, shape, &Device::Cpu).unwrap()).unwrap()
    }

    /// Value and gradients of both functions agree; the result is weighted so that gradients differ
    /// everywhere.
    fn agree(vars: &[&Var], ours: &Tensor, plain: &Tensor) {
        let weights = wave(ours.dims(), 1.0).detach();
        let far = |a: &Tensor, b: &Tensor| -> f32 {
            (a - b).unwrap().abs().unwrap().max_all().unwrap().to_scalar().unwrap()
        };
        assert!(far(ours, plain) < 1e-5);
        let grads =
            [ours, plain].map(|y| (y * &weights).unwrap().sum_all().unwrap().backward().unwrap());
        for var in vars {
            let [a, b] = [&grads[0], &grads[1]].map(|grads| grads.get(var).unwrap().clone());
            assert!(b.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap() > 1e-3);
            assert!(far(&a, &b) < 1e-5, "{a} {b}");
        }
    }

    #[test]
    fn every_function_has_the_gradient_of_its_formula() {
        let x = wave(&[3, 8], 0.0);
        let w = wave(&[5, 8], 0.4);
        let plain = x.matmul(&w.t().unwrap()).unwrap();
        let products = Products::default();
        agree(&[&x, &w], &products.linear(&x, &w).unwrap(), &plain);
        agree(&[&w], &products.linear_of(&x, &w).unwrap(), &plain);
        let batches = [wave(&[2, 3, 4], 0.1), wave(&[2, 4, 5], 0.9)];
        let [a, b] = batches.each_ref();
        agree(&[a, b], &products.matmul(a, b).unwrap(), &a.matmul(b).unwrap());

        let weight = wave(&[8], 0.4);
        let plain = fused::rms_norm_slow(&x, &weight, 1e-5).unwrap();
        agree(&[&x, &weight], &rms_norm(&x, &weight, 1e-5).unwrap(), &plain);

        let up = wave(&[3, 8], 0.4);
        let plain = (x.silu().unwrap() * up.as_tensor()).unwrap();
        agree(&[&x, &up], &swiglu(&x, &up).unwrap(), &plain);

        let x = wave(&[2, 3, 4, 6], 0.0);
        let angles = wave(&[4, 3], 0.2).detach();
        let cos = angles.cos().unwrap();
        let sin = angles.sin().unwrap();
        let plain = candle_nn::rotary_emb::rope_slow(&x, &cos, &sin).unwrap();
        agree(&[&x], &rotate(&x, &cos, &sin).unwrap(), &plain);

        // What is masked out stays out.
        let x = wave(&[2, 3, 4], 0.0);
        let hidden = [[0.0, f32::NEG_INFINITY, 0.0, 0.0], [0.0; 4], [0.0; 4]];
        let mask = Tensor::new(&hidden, &Device::Cpu).unwrap();
        let plain = (x.as_tensor() * 0.3).unwrap().broadcast_add(&mask).unwrap();
        let plain = fused::softmax(&plain, D::Minus1).unwrap();
        agree(&[&x], &masked_softmax(&x, 0.3, &mask).unwrap(), &plain);
    }
}
