// Keys and values in half precision, two in a word.
alias Pair = u32;

fn packed(x: vec2<f32>) -> Pair {
    return pack2x16float(x);
}

fn unpacked(x: Pair) -> vec2<f32> {
    return unpack2x16float(x);
}
