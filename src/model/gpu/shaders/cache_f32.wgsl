// Keys and values in single precision.
alias Pair = vec2<f32>;

fn packed(x: vec2<f32>) -> Pair {
    return x;
}

fn unpacked(x: Pair) -> vec2<f32> {
    return x;
}
