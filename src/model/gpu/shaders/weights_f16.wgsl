// 16-bit IEEE floats, two in a word.
struct Eight { a: vec4<f32>, b: vec4<f32> }

@group(0) @binding(0) var<storage, read> codes: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<f32>;

// Columns 8g..8g + 8 of row o.
fn weights(o: u32, g: u32) -> Eight {
    let w = codes[o * (p.inputs / 8u) + g];
    return Eight(
        vec4(unpack2x16float(w.x), unpack2x16float(w.y)),
        vec4(unpack2x16float(w.z), unpack2x16float(w.w)),
    );
}
