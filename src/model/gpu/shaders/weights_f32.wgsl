// 32-bit floats.
struct Eight { a: vec4<f32>, b: vec4<f32> }

@group(0) @binding(0) var<storage, read> codes: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> scales: array<f32>;

// Columns 8g..8g + 8 of row o.
fn weights(o: u32, g: u32) -> Eight {
    let at = (o * (p.inputs / 8u) + g) * 2u;
    return Eight(codes[at], codes[at + 1u]);
}
