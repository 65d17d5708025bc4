// RMS norm of each of a row's segments: out = x / sqrt(mean(x^2) + eps) * weight, stored or, times
// a factor, added to what the output holds, times another. If it is centred, the mean is taken out
// of x first, and a bias, which is stored after the weights, is added. A workgroup makes one
// segment.

struct Params {
    rows: u32,
    base: u32,
    stable: u32,
    flags: u32,
    width: u32,
    weight_stride: u32,
    in_stride: u32,
    kept: f32,
    out_stride: u32,
    out_at: u32,
    factor: f32,
    eps: f32,
}

var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> input: array<f32>;
@group(0) @binding(1) var<storage, read> weight: array<f32>;
@group(0) @binding(2) var<storage, read_write> output: array<f32>;

const ADD_TO_OUTPUT = 1u;
const CENTRED = 2u;

var<workgroup> sums: array<f32, 64>;

// The sum of the threads' numbers.
fn total(own: f32, thread: u32) -> f32 {
    workgroupBarrier();
    sums[thread] = own;
    workgroupBarrier();
    var all = 0.0;
    for (var t = 0u; t < 64u; t++) {
        all += sums[t];
    }
    return all;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let begin = group.y * p.in_stride + group.x * p.width;
    let centred = (p.flags & CENTRED) != 0u;
    var mean = 0.0;
    if centred {
        var sum = 0.0;
        for (var c = thread; c < p.width; c += 64u) {
            sum += input[begin + c];
        }
        mean = total(sum, thread) / f32(p.width);
    }
    var sum = 0.0;
    for (var c = thread; c < p.width; c += 64u) {
        let x = input[begin + c] - mean;
        sum = fma(x, x, sum);
    }
    let scale = 1.0 / sqrt(total(sum, thread) / f32(p.width) + p.eps);
    let to = group.y * p.out_stride + p.out_at + group.x * p.width;
    for (var c = thread; c < p.width; c += 64u) {
        var y = (input[begin + c] - mean) * scale * weight[group.x * p.weight_stride + c];
        if centred {
            y += weight[p.in_stride + group.x * p.weight_stride + c];
        }
        if (p.flags & ADD_TO_OUTPUT) != 0u {
            y = p.kept * output[to + c] + p.factor * y;
        }
        output[to + c] = y;
    }
}
