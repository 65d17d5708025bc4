// Copies rows, or the rows that a list names.

struct Params {
    rows: u32,
    base: u32,
    stable: u32,
    flags: u32,
    width: u32,
    in_stride: u32,
    in_at: u32,
    out_stride: u32,
    out_at: u32,
}

var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> input: array<f32>;
@group(0) @binding(1) var<storage, read> list: array<u32>;
@group(0) @binding(2) var<storage, read_write> output: array<f32>;

const BY_LIST = 1u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let c = group.x * 64u + thread;
    if c >= p.width {
        return;
    }
    var row = group.y;
    if (p.flags & BY_LIST) != 0u {
        row = list[group.y];
    }
    output[group.y * p.out_stride + p.out_at + c] = input[row * p.in_stride + p.in_at + c];
}
