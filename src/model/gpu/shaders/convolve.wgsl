// DFlash-2's convolution over the rows of a pass: out[row, i] = the sum over taps t of
// (base[t, i] + kernels[row, side, t, the channel's group]) * in[row - t, i], stored or, times a
// factor, added to what the output holds, times another.

struct Params {
    rows: u32,
    base: u32,
    stable: u32,
    flags: u32,
    width: u32,
    taps: u32,
    groups: u32,
    side: u32,
    kept: f32,
    factor: f32,
}

var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> input: array<f32>;
@group(0) @binding(1) var<storage, read> kernels: array<f32>;
@group(0) @binding(2) var<storage, read> base: array<f32>;
@group(0) @binding(3) var<storage, read_write> output: array<f32>;

const ADD_TO_OUTPUT = 1u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = group.x * 64u + thread;
    if i >= p.width {
        return;
    }
    let row = group.y;
    var sum = 0.0;
    for (var t = 0u; t < min(p.taps, row + 1u); t++) {
        let at = ((row * 2u + p.side) * p.taps + t) * p.groups + i * p.groups / p.width;
        sum = fma(base[t * p.width + i] + kernels[at], input[(row - t) * p.width + i], sum);
    }
    let to = row * p.width + i;
    if (p.flags & ADD_TO_OUTPUT) != 0u {
        sum = p.kept * output[to] + p.factor * sum;
    }
    output[to] = sum;
}
