// out[row, o] = epilogue(sum over columns of weight[o, column] * input[row, column]).
//
// A workgroup makes four outputs of up to eight rows, sixteen lanes to an output. Lane l adds up
// the groups of eight columns l, l + 16, ... in order, then the sixteen sums are added in order:
// no number depends on how many rows there are, or on which of them a row is.

struct Params {
    rows: u32,
    base: u32,
    stable: u32,
    flags: u32,
    inputs: u32,
    outputs: u32,
    in_stride: u32,
    kept: f32,
    out_stride: u32,
    out_at: u32,
    factor: f32,
    group_shift: u32,
}

var<immediate> p: Params;

@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;

const LANES = 16u;
const OUTPUTS = 4u;
const ROWS = 8u;

const ADD_TO_OUTPUT = 1u;
const WITH_BIAS = 2u;
const WITH_SILU = 4u;

var<workgroup> sums: array<f32, 512>;

fn step(sum: f32, w: Eight, at: u32) -> f32 {
    let x = input[at];
    let y = input[at + 1u];
    var s = fma(w.a.x, x.x, sum);
    s = fma(w.a.y, x.y, s);
    s = fma(w.a.z, x.z, s);
    s = fma(w.a.w, x.w, s);
    s = fma(w.b.x, y.x, s);
    s = fma(w.b.y, y.y, s);
    s = fma(w.b.z, y.z, s);
    return fma(w.b.w, y.w, s);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let lane = thread % LANES;
    let own = thread / LANES;
    let first = group.y * ROWS;
    let count = min(ROWS, p.rows - first);
    // Outputs beyond the last repeat it and are not written.
    let o = min(group.x * OUTPUTS + own, p.outputs - 1u);
    let stride = p.in_stride / 4u;
    let begin = first * stride;
    var sum: array<f32, 8>;
    for (var g = lane; g < p.inputs / 8u; g += LANES) {
        let w = weights(o, g);
        let at = begin + g * 2u;
        sum[0] = step(sum[0], w, at);
        if count > 1u {
            sum[1] = step(sum[1], w, at + stride);
            sum[2] = step(sum[2], w, at + 2u * stride);
            sum[3] = step(sum[3], w, at + 3u * stride);
        }
        if count > 4u {
            sum[4] = step(sum[4], w, at + 4u * stride);
            sum[5] = step(sum[5], w, at + 5u * stride);
            sum[6] = step(sum[6], w, at + 6u * stride);
            sum[7] = step(sum[7], w, at + 7u * stride);
        }
    }
    let slot = own * LANES + lane;
    sums[slot] = sum[0];
    sums[slot + 64u] = sum[1];
    sums[slot + 128u] = sum[2];
    sums[slot + 192u] = sum[3];
    sums[slot + 256u] = sum[4];
    sums[slot + 320u] = sum[5];
    sums[slot + 384u] = sum[6];
    sums[slot + 448u] = sum[7];
    workgroupBarrier();
    let row = thread / OUTPUTS;
    let mine = group.x * OUTPUTS + thread % OUTPUTS;
    if row >= count || mine >= p.outputs {
        return;
    }
    let begins = row * 64u + (thread % OUTPUTS) * LANES;
    var total = sums[begins];
    for (var l = 1u; l < LANES; l++) {
        total += sums[begins + l];
    }
    if (p.flags & WITH_BIAS) != 0u {
        total += bias[mine];
    }
    if (p.flags & WITH_SILU) != 0u {
        total = total / (1.0 + exp(-total));
    }
    let to = (first + row) * p.out_stride + p.out_at + mine;
    if (p.flags & ADD_TO_OUTPUT) != 0u {
        total = p.kept * output[to] + p.factor * total;
    }
    output[to] = total;
}
