// From the joined products q | k | v of a row: norms of heads, rotary positions, then q to its
// buffer, k and v to the cache. A workgroup makes one head of one row. A gate of attention's
// output, which may follow each head of q, stays where it is.

struct Params {
    rows: u32,
    base: u32,
    stable: u32,
    flags: u32,
    heads: u32,
    kv_heads: u32,
    dim: u32,
    // Pairs that are rotated: component i with i + half.
    half: u32,
    eps: f32,
    // 1 if a gate follows each head of q.
    gated: u32,
}

var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> qkv: array<f32>;
// [rows, half] cosines and sines.
@group(0) @binding(1) var<storage, read> angles: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> q_norm: array<f32>;
@group(0) @binding(3) var<storage, read> k_norm: array<f32>;
@group(0) @binding(4) var<storage, read_write> q: array<vec2<f32>>;
// [slots, k | v]
@group(0) @binding(5) var<storage, read_write> cache: array<Pair>;

// Norms of q's and k's heads, and of v's, which have no weights.
const NORM_HEADS = 1u;
const NORM_VALUES = 2u;

var<workgroup> head: array<f32, 256>;
var<workgroup> sums: array<f32, 64>;

fn rotated(row: u32, c: u32) -> f32 {
    if c >= 2u * p.half {
        return head[c];
    }
    if c < p.half {
        let angle = angles[row * p.half + c];
        return head[c] * angle.x - head[c + p.half] * angle.y;
    }
    let angle = angles[row * p.half + c - p.half];
    return head[c] * angle.x + head[c - p.half] * angle.y;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group.y;
    let number = group.x;
    let is_q = number < p.heads;
    let is_v = number >= p.heads + p.kv_heads;
    let gates = p.gated * min(number, p.heads);
    let begin = (row * ((1u + p.gated) * p.heads + 2u * p.kv_heads) + number + gates) * p.dim;
    var sum = 0.0;
    for (var c = thread; c < p.dim; c += 64u) {
        let x = qkv[begin + c];
        head[c] = x;
        sum = fma(x, x, sum);
    }
    sums[thread] = sum;
    workgroupBarrier();
    if (p.flags & select(NORM_HEADS, NORM_VALUES, is_v)) != 0u {
        var total = 0.0;
        for (var t = 0u; t < 64u; t++) {
            total += sums[t];
        }
        let scale = 1.0 / sqrt(total / f32(p.dim) + p.eps);
        for (var c = thread; c < p.dim; c += 64u) {
            var weight = 1.0;
            if is_q {
                weight = q_norm[c];
            } else if !is_v {
                weight = k_norm[c];
            }
            head[c] = head[c] * scale * weight;
        }
    }
    workgroupBarrier();
    let pairs = p.dim / 2u;
    for (var c = thread; c < pairs; c += 64u) {
        var value = vec2(head[2u * c], head[2u * c + 1u]);
        if !is_v {
            value = vec2(rotated(row, 2u * c), rotated(row, 2u * c + 1u));
        }
        if is_q {
            q[(row * p.heads + number) * pairs + c] = value;
        } else {
            // k and v heads follow one another in a slot as they do behind q.
            let slot = p.base + row;
            cache[(slot * 2u * p.kv_heads + number - p.heads) * pairs + c] = packed(value);
        }
    }
}
