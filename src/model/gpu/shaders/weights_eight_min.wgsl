// 8-bit codes, unsigned, with a scale and a minimum for every 8 << group_shift columns.
struct Eight { a: vec4<f32>, b: vec4<f32> }

@group(0) @binding(0) var<storage, read> codes: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<vec2<f32>>;

fn bytes(w: u32) -> vec4<f32> {
    return vec4<f32>((vec4(w) >> vec4(0u, 8u, 16u, 24u)) & vec4(0xffu));
}

// Columns 8g..8g + 8 of row o.
fn weights(o: u32, g: u32) -> Eight {
    let groups = p.inputs / 8u;
    let w = codes[o * groups + g];
    let scale = scales[(o * groups + g) >> p.group_shift];
    return Eight(bytes(w.x) * scale.x - scale.y, bytes(w.y) * scale.x - scale.y);
}
