// The likeliest tokens of each row of logits with their log-probabilities, best first, ties by the
// lower token: (token, bits of the log-probability) pairs, token 0xffffffff where a row has no more
// numbers. A workgroup makes a row.

struct Params {
    rows: u32,
    base: u32,
    stable: u32,
    flags: u32,
    vocab: u32,
    count: u32,
}

var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read_write> ranked: array<vec2<u32>>;

const THREADS = 256u;
const NONE = 0xffffffffu;

var<workgroup> keys: array<u32, 256>;
var<workgroup> tokens: array<u32, 256>;
var<workgroup> sums: array<f32, 256>;

// Integers in the order of the floats; 0 for what is no candidate, NaN and minus infinity.
fn key(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    if (bits & 0x7fffffffu) > 0x7f800000u || bits == 0xff800000u {
        return 0u;
    }
    if (bits & 0x80000000u) != 0u {
        return ~bits;
    }
    return bits | 0x80000000u;
}

fn value(key: u32) -> f32 {
    if (key & 0x80000000u) != 0u {
        return bitcast<f32>(key & 0x7fffffffu);
    }
    return bitcast<f32>(~key);
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let begin = group.x * p.vocab;
    // What was chosen last: later ones are smaller, or as large with a higher token.
    var last_key = NONE;
    var last_token = 0u;
    var top = 0.0;
    var log_sum = 0.0;
    for (var i = 0u; i < p.count; i++) {
        var best = 0u;
        var token = NONE;
        for (var t = thread; t < p.vocab; t += THREADS) {
            let k = key(logits[begin + t]);
            let is_left = k < last_key || (k == last_key && t > last_token);
            if is_left && k > best {
                best = k;
                token = t;
            }
        }
        keys[thread] = best;
        tokens[thread] = token;
        workgroupBarrier();
        for (var half = THREADS / 2u; half > 0u; half /= 2u) {
            if thread < half {
                let other = keys[thread + half];
                let theirs = tokens[thread + half];
                if other > keys[thread] || (other == keys[thread] && theirs < tokens[thread]) {
                    keys[thread] = other;
                    tokens[thread] = theirs;
                }
            }
            workgroupBarrier();
        }
        last_key = workgroupUniformLoad(&keys[0]);
        last_token = workgroupUniformLoad(&tokens[0]);
        if i == 0u && last_key > 0u {
            top = value(last_key);
            var sum = 0.0;
            for (var t = thread; t < p.vocab; t += THREADS) {
                let x = logits[begin + t];
                if key(x) > 0u {
                    sum += exp(x - top);
                }
            }
            sums[thread] = sum;
            workgroupBarrier();
            var total = 0.0;
            for (var t = 0u; t < THREADS; t++) {
                total += sums[t];
            }
            log_sum = log(total);
        }
        if thread == 0u {
            let log_prob = (value(last_key) - top) - log_sum;
            ranked[group.x * p.count + i] = vec2(last_token, bitcast<u32>(log_prob));
        }
        if last_key == 0u {
            // No number is left: the rest of the list says so too.
            if thread == 0u {
                for (var j = i; j < p.count; j++) {
                    ranked[group.x * p.count + j] = vec2(NONE, 0u);
                }
            }
            break;
        }
    }
}
