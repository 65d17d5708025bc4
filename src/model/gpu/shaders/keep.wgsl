// Moves the kept rows in flight behind the committed positions. They ascend, so that each is read
// before its place is overwritten; a thread moves one pair of all of them.

struct Params {
    // Rows that are kept.
    rows: u32,
    base: u32,
    stable: u32,
    flags: u32,
    // Pairs of a slot.
    pairs: u32,
}

var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> path: array<u32>;
@group(0) @binding(1) var<storage, read_write> cache: array<Pair>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= p.pairs {
        return;
    }
    for (var i = 0u; i < p.rows; i++) {
        let source = p.stable + path[i];
        cache[(p.stable + i) * p.pairs + id.x] = cache[source * p.pairs + id.x];
    }
}
