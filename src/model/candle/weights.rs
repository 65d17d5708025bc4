//! A decoder block's weights as candle tensors. It must not depend on tensor names.

use candle_core::{DType, Device, Tensor};

/// A linear layer, weight `[out, in]`.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Option<Tensor>,
}

/// One decoder block.
#[derive(Clone, Debug)]
pub struct BlockWeights {
    /// `[H]`; missing in block 0.
    pub input_norm: Option<Tensor>,
    /// `[d]` each: the norms of every head of q and of k, before the rotation.
    pub qk_norm: Option<[Tensor; 2]>,
    /// `[heads · d, H]`; the input of attention may be wider than H.
    pub q: Linear,
    /// `[kv_heads · d, H]`.
    pub k: Linear,
    /// `[kv_heads · d, H]`.
    pub v: Linear,
    /// `[H, heads · d]`.
    pub o: Tensor,
    /// `[H]`.
    pub post_norm: Tensor,
    /// `[I, H]`.
    pub gate: Tensor,
    /// `[I, H]`.
    pub up: Tensor,
    /// `[H, I]`.
    pub down: Tensor,
}

impl BlockWeights {
    /// The same weights on `device` in `dtype`.
    ///
    /// # Errors
    /// If the device has no room or fails.
    pub fn to(&self, device: &Device, dtype: DType) -> candle_core::Result<Self> {
        let put = |tensor: &Tensor| tensor.to_device(device)?.to_dtype(dtype);
        let put_optional = |tensor: &Option<Tensor>| tensor.as_ref().map(put).transpose();
        let put_linear = |linear: &Linear| -> candle_core::Result<Linear> {
            Ok(Linear { weight: put(&linear.weight)?, bias: put_optional(&linear.bias)? })
        };
        let qk_norm = match &self.qk_norm {
            Some([q, k]) => Some([put(q)?, put(k)?]),
            None => None,
        };
        Ok(Self {
            qk_norm,
            input_norm: put_optional(&self.input_norm)?,
            q: put_linear(&self.q)?,
            k: put_linear(&self.k)?,
            v: put_linear(&self.v)?,
            o: put(&self.o)?,
            post_norm: put(&self.post_norm)?,
            gate: put(&self.gate)?,
            up: put(&self.up)?,
            down: put(&self.down)?,
        })
    }
}
