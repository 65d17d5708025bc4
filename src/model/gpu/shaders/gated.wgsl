// out[row, i] = activation(gate) * up, of rows gate | up; without a gate, activation(up), and the
// second half of the rows is not read.

struct Params {
    rows: u32,
    base: u32,
    stable: u32,
    flags: u32,
    width: u32,
}

var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> gate_up: array<f32>;
@group(0) @binding(1) var<storage, read_write> output: array<f32>;

const GELU = 1u;
const UNGATED = 2u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = group.x * 64u + thread;
    if i >= p.width {
        return;
    }
    let x = gate_up[group.y * 2u * p.width + i];
    var up = 1.0;
    if (p.flags & UNGATED) == 0u {
        up = gate_up[group.y * 2u * p.width + p.width + i];
    }
    var t = x;
    if (p.flags & GELU) != 0u {
        // x * sigmoid(2u) is the tanh form, u = sqrt(2 / pi) (x + 0.044715 x^3).
        t = 2.0 * 0.7978846 * fma(x * x * x, 0.044715, x);
    }
    output[group.y * p.width + i] = x / (1.0 + exp(-t)) * up;
}
