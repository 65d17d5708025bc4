// 8-bit codes, signed, with a scale for every 8 << group_shift columns.
struct Eight { a: vec4<f32>, b: vec4<f32> }

@group(0) @binding(0) var<storage, read> codes: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<f32>;

fn bytes(w: u32) -> vec4<f32> {
    let moved = vec4(w << 24u, w << 16u, w << 8u, w);
    return vec4<f32>(bitcast<vec4<i32>>(moved) >> vec4(24u));
}

// Columns 8g..8g + 8 of row o.
fn weights(o: u32, g: u32) -> Eight {
    let groups = p.inputs / 8u;
    let w = codes[o * groups + g];
    let scale = scales[(o * groups + g) >> p.group_shift];
    return Eight(bytes(w.x) * scale, bytes(w.y) * scale);
}
