// DGF's gate: out = s(z) h1 + (1 - s(z)) h2, of rows h1 | h2.

struct Params {
    rows: u32,
    base: u32,
    stable: u32,
    flags: u32,
    width: u32,
}

var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> gate: array<f32>;
@group(0) @binding(1) var<storage, read> both: array<f32>;
@group(0) @binding(2) var<storage, read_write> output: array<f32>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = group.x * 64u + thread;
    if i >= p.width {
        return;
    }
    let z = 1.0 / (1.0 + exp(-gate[group.y * p.width + i]));
    let at = group.y * 2u * p.width + i;
    output[group.y * p.width + i] = z * both[at] + (1.0 - z) * both[at + p.width];
}
