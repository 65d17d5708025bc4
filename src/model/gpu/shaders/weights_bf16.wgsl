// bfloat16, two in a word: the upper halves of 32-bit floats.
struct Eight { a: vec4<f32>, b: vec4<f32> }

@group(0) @binding(0) var<storage, read> codes: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<f32>;

fn pair(w: u32) -> vec2<f32> {
    return bitcast<vec2<f32>>(vec2(w << 16u, w & 0xffff0000u));
}

// Columns 8g..8g + 8 of row o.
fn weights(o: u32, g: u32) -> Eight {
    let w = codes[o * (p.inputs / 8u) + g];
    return Eight(vec4(pair(w.x), pair(w.y)), vec4(pair(w.z), pair(w.w)));
}
