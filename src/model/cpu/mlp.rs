//! A dense MLP over some rows: a block's own, or one expert of a mixture. It must not depend on
//! which of the two.

use super::layer::Dense;
use super::scratch::{MlpScratch, add_bias, products};
use crate::kernels::{Pool, QuantizedRows, activate, gated};
use crate::model::Config;

impl Dense {
    /// out = down(activation(gate(x)) · up(x)), for the rows of `x` in their order.
    pub(super) fn run(
        &self,
        pool: &Pool,
        config: &Config,
        rows: &mut QuantizedRows,
        scratch: &mut MlpScratch,
        x: &[f32],
        out: &mut [f32],
    ) {
        let width = x.len() / self.up.inputs() * self.up.outputs();
        let MlpScratch { gate, up, normed } = scratch;
        up.resize(width);
        let activation = config.block.activation;
        let inner = match &self.gate {
            Some(matrix) => {
                gate.resize(width);
                products(pool, rows, x, &mut [(matrix, gate), (&self.up, up)]);
                for (values, bias) in [(&mut *gate, &self.gate_bias), (&mut *up, &self.up_bias)] {
                    if let Some(bias) = bias {
                        add_bias(values, bias);
                    }
                }
                gated(pool, activation, gate, up);
                gate
            }
            None => {
                products(pool, rows, x, &mut [(&self.up, up)]);
                if let Some(bias) = &self.up_bias {
                    add_bias(up, bias);
                }
                activate(pool, activation, up);
                up
            }
        };
        if let Some(norm) = &self.inner_norm {
            normed.resize(width);
            norm.apply(pool, inner, config.rms_eps, normed);
            std::mem::swap(inner, normed);
        }
        products(pool, rows, inner, &mut [(&self.down, out)]);
        if let Some(bias) = &self.down_bias {
            add_bias(out, bias);
        }
    }
}
