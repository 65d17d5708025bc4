// Tree attention: a row sees the committed positions and the rows on its path. A workgroup makes
// one head of one row, 64 positions at a time in the order of the path, so that a row's sums are
// the same whether its path is committed or in flight, and whatever rows go with it.

struct Params {
    rows: u32,
    base: u32,
    stable: u32,
    flags: u32,
    heads: u32,
    kv_heads: u32,
    dim: u32,
    // Positions seen; 0 is all.
    window: u32,
    scale: f32,
    // 0 is none.
    softcap: f32,
    // Of what is returned.
    factor: f32,
}

var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> q: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read> cache: array<Pair>;
// For each row: positions seen one after the other from the first, where its list of rows in flight
// begins, how many these are, and the position after its own; then the lists.
@group(0) @binding(2) var<storage, read> paths: array<u32>;
// [rows, q | k | v] with a gate after each head of q, if there are gates.
@group(0) @binding(3) var<storage, read> qkv: array<vec2<f32>>;
// For each head, one more score without a value: the attention sink, or the lowest score.
@group(0) @binding(4) var<storage, read> sinks: array<f32>;
@group(0) @binding(5) var<storage, read_write> output: array<vec2<f32>>;

const GATED = 1u;
// A row sees no later row, whatever its path says.
const CAUSAL = 2u;

const CHUNK = 64u;
const LOWEST = -3.0e38;

var<workgroup> query: array<vec2<f32>, 128>;
var<workgroup> scores: array<f32, 64>;
var<workgroup> shares: array<f32, 64>;
var<workgroup> slots: array<u32, 64>;

fn finished(y: vec2<f32>, gate: u32) -> vec2<f32> {
    let x = y * p.factor;
    if (p.flags & GATED) == 0u {
        return x;
    }
    return x / (1.0 + exp(-qkv[gate]));
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group.y;
    let head = group.x;
    let pairs = p.dim / 2u;
    let kv_head = head / (p.heads / p.kv_heads);
    let slot_pairs = 2u * p.kv_heads * pairs;
    for (var c = thread; c < pairs; c += 64u) {
        query[c] = q[(row * p.heads + head) * pairs + c] * p.scale;
    }
    var straight = paths[4u * row];
    let list = paths[4u * row + 1u];
    let end = paths[4u * row + 3u];
    if (p.flags & CAUSAL) != 0u {
        straight = min(straight, end);
    }
    let seen = straight + paths[4u * row + 2u];
    var lowest = 0u;
    if p.window > 0u && end > p.window {
        lowest = end - p.window;
    }
    // Without a sink, this 1 counts for nothing next to any score.
    var top = sinks[head];
    var total = 1.0;
    var near = vec2(0.0);
    var far = vec2(0.0);
    for (var chunk = lowest / CHUNK * CHUNK; chunk < seen; chunk += CHUNK) {
        let position = chunk + thread;
        let visible = position >= lowest && position < seen;
        var slot = 0u;
        var score = LOWEST;
        workgroupBarrier();
        if visible {
            slot = position;
            if position >= straight {
                slot = p.stable + paths[list + position - straight];
            }
            let at = slot * slot_pairs + kv_head * pairs;
            score = 0.0;
            for (var c = 0u; c < pairs; c++) {
                let k = unpacked(cache[at + c]);
                score = fma(query[c].x, k.x, score);
                score = fma(query[c].y, k.y, score);
            }
            if p.softcap > 0.0 {
                score = p.softcap * tanh(score / p.softcap);
            }
        }
        slots[thread] = slot;
        scores[thread] = score;
        workgroupBarrier();
        var higher = top;
        for (var t = 0u; t < CHUNK; t++) {
            higher = max(higher, scores[t]);
        }
        var share = 0.0;
        if visible {
            share = exp(score - higher);
        }
        shares[thread] = share;
        workgroupBarrier();
        let kept = exp(top - higher);
        top = higher;
        total *= kept;
        near *= kept;
        far *= kept;
        let count = min(CHUNK, seen - chunk);
        for (var t = 0u; t < count; t++) {
            let w = shares[t];
            total += w;
            let at = slots[t] * slot_pairs + (p.kv_heads + kv_head) * pairs + thread;
            if thread < pairs {
                near = fma(vec2(w), unpacked(cache[at]), near);
            }
            if thread + 64u < pairs {
                far = fma(vec2(w), unpacked(cache[at + 64u]), far);
            }
        }
    }
    let to = (row * p.heads + head) * pairs + thread;
    let gate = (2u * (row * (p.heads + p.kv_heads) + head) + 1u) * pairs + thread;
    if thread < pairs {
        output[to] = finished(near / total, gate);
    }
    if thread + 64u < pairs {
        output[to + 64u] = finished(far / total, gate + 64u);
    }
}
