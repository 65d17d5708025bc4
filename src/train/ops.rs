//! Functions with gradients in closed form. Candle's fused softmax, RMSNorm and RoPE have no
//! gradients, and compositions of its plain operations take several times as long. It must not
//! depend on what they are used for.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CudaStorage, CustomOp2, D, Layout, Result, Shape, Storage, Tensor};
use candle_nn::ops as fused;

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

/// x · Wᵀ for `x` `[n, in]` and `w` `[out, in]`. Candle computes the gradient of a transposed
/// weight as that of the transpose and adds it up element by element, against the memory order.
pub(super) fn linear(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let x0 = x.detach();
    let w0 = w.detach();
    let value = x0.matmul(&w0.t()?)?;
    function_of_two(x, w, value, move |grad| Ok((grad.matmul(&w0)?, grad.t()?.matmul(&x0)?)))
}

/// The same for an `x` that does not depend on weights: only `w` has a gradient.
pub(super) fn linear_of(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let x0 = x.detach();
    let value = x0.matmul(&w.detach().t()?)?;
    function_of(w, value, move |grad| grad.t()?.matmul(&x0))
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
    use candle_core::{Device, Var};

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
        agree(&[&x, &w], &linear(&x, &w).unwrap(), &plain);
        agree(&[&w], &linear_of(&x, &w).unwrap(), &plain);

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
