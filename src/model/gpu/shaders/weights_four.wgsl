// 4-bit codes, eight in a word, with a scale and a minimum for every 8 << group_shift columns.
struct Eight { a: vec4<f32>, b: vec4<f32> }

@group(0) @binding(0) var<storage, read> codes: array<u32>;
@group(0) @binding(1) var<storage, read> scales: array<vec2<f32>>;

fn nibbles(w: u32) -> vec4<f32> {
    return vec4<f32>((vec4(w) >> vec4(0u, 4u, 8u, 12u)) & vec4(15u));
}

// Columns 8g..8g + 8 of row o.
fn weights(o: u32, g: u32) -> Eight {
    let groups = p.inputs / 8u;
    let w = codes[o * groups + g];
    let scale = scales[(o * groups + g) >> p.group_shift];
    return Eight(nibbles(w) * scale.x - scale.y, nibbles(w >> 16u) * scale.x - scale.y);
}
