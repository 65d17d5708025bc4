//! Mathematics in TeX's notation as Unicode, which every terminal shows: Greek letters, signs,
//! scripts, roots and fractions in one row. What has no sign of its own stays readable: an unknown
//! command as it is written, a script after `^` or `_`. Must never know where it is shown.

/// Groups within groups that are read; deeper ones stay as they are written.
const DEEPEST: usize = 24;

/// Commands, each followed by what it shows.
const SIGNS: &str = "\
    alpha α beta β gamma γ delta δ epsilon ε varepsilon ε zeta ζ eta η theta θ vartheta ϑ \
    iota ι kappa κ lambda λ mu μ nu ν xi ξ pi π rho ρ sigma σ tau τ upsilon υ phi φ varphi φ \
    chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ \
    Psi Ψ Omega Ω sum ∑ prod ∏ int ∫ iint ∬ oint ∮ partial ∂ nabla ∇ infty ∞ pm ± mp ∓ \
    times × cdot · div ÷ ast ∗ star ⋆ circ ∘ bullet • oplus ⊕ otimes ⊗ le ≤ leq ≤ ge ≥ geq ≥ \
    ne ≠ neq ≠ ll ≪ gg ≫ approx ≈ equiv ≡ sim ∼ simeq ≃ cong ≅ propto ∝ in ∈ notin ∉ ni ∋ \
    subset ⊂ subseteq ⊆ supset ⊃ supseteq ⊇ cup ∪ cap ∩ setminus ∖ emptyset ∅ varnothing ∅ \
    forall ∀ exists ∃ neg ¬ lnot ¬ land ∧ wedge ∧ lor ∨ vee ∨ to → rightarrow → leftarrow ← \
    leftrightarrow ↔ Rightarrow ⇒ implies ⇒ Leftarrow ⇐ Leftrightarrow ⇔ iff ⇔ mapsto ↦ \
    uparrow ↑ downarrow ↓ perp ⊥ parallel ∥ mid | angle ∠ degree ° prime ′ ldots … dots … \
    cdots ⋯ vdots ⋮ ddots ⋱ hbar ℏ ell ℓ Re ℜ Im ℑ aleph ℵ langle ⟨ rangle ⟩ lfloor ⌊ \
    rfloor ⌋ lceil ⌈ rceil ⌉ vert | Vert ‖ therefore ∴ because ∵ blacksquare ■ square □";
/// Commands, each followed by the mark that it puts on its argument.
const MARKS: &str = "\
    hat \u{302} bar \u{304} overline \u{304} vec \u{20d7} tilde \u{303} dot \u{307} \
    ddot \u{308}";
/// Commands whose argument is shown as it is.
const AS_IS: &str = "\
    text textbf textit mathrm mathbf mathit mathsf mathcal boldsymbol operatorname boxed \
    mbox";
/// Commands that are the names of functions.
const NAMES: &str = "\
    sin cos tan cot sec arcsin arccos arctan sinh cosh tanh log ln exp lim max min sup inf \
    arg det dim ker gcd Pr mod";
/// Commands that show nothing.
const NOTHING: &str = "\
    displaystyle limits nolimits left right big Big bigl bigr";
/// Each followed by itself in a script: above the line, below it.
const ABOVE: &str = "0⁰1¹2²3³4⁴5⁵6⁶7⁷8⁸9⁹+⁺-⁻−⁻=⁼(⁽)⁾aᵃbᵇcᶜdᵈeᵉfᶠgᵍhʰiⁱjʲkᵏlˡmᵐnⁿoᵒpᵖrʳsˢtᵗuᵘvᵛwʷ\
                     xˣyʸzᶻTᵀ′′βᵝγᵞδᵟθᶿ∗*";
const BELOW: &str = "0₀1₁2₂3₃4₄5₅6₆7₇8₈9₉+₊-₋−₋=₌(₍)₎aₐeₑhₕiᵢjⱼkₖlₗmₘnₙoₒpₚrᵣsₛtₜuᵤvᵥxₓβᵦγᵧρᵨφᵩχᵪ";
/// Letters and themselves in blackboard bold.
const BOARD: &str = "CℂNℕPℙQℚRℝZℤE𝔼";

/// `tex`, which is between the signs of mathematics, in Unicode. Rows are apart by line feeds.
pub fn unicode(tex: &str) -> String {
    let mut rest = tex.trim();
    let mut out = String::new();
    while !rest.is_empty() {
        out += &sequence(&mut rest, 0);
        // A brace that closes nothing.
        rest = rest.strip_prefix('}').unwrap_or(rest);
    }
    out
}

fn next(rest: &mut &str) -> Option<char> {
    let c = rest.chars().next()?;
    *rest = &rest[c.len_utf8()..];
    Some(c)
}

/// Up to the brace that closes it, which is left, or the end.
fn sequence(rest: &mut &str, depth: usize) -> String {
    let mut out = String::new();
    while !rest.is_empty() && !rest.starts_with('}') {
        let part = atom(rest, depth);
        if !(part == " " && out.ends_with([' ', '\n'])) {
            out += &part;
        }
    }
    out
}

/// A character, a group or a command with its arguments.
fn atom(rest: &mut &str, depth: usize) -> String {
    match next(rest) {
        Some('{') if depth < DEEPEST => {
            let inside = sequence(rest, depth + 1);
            *rest = rest.strip_prefix('}').unwrap_or(rest);
            inside
        }
        Some('\\') => command(rest, depth),
        Some(sign @ ('^' | '_')) => script(sign, &argument(rest, depth)),
        Some('\'') => "′".to_string(),
        Some('-') => "−".to_string(),
        Some('&') => String::new(),
        Some(c) if c == '~' || c.is_whitespace() => " ".to_string(),
        Some(c) => c.to_string(),
        None => String::new(),
    }
}

/// The next atom that is not a space.
fn argument(rest: &mut &str, depth: usize) -> String {
    *rest = rest.trim_start();
    if depth < DEEPEST { atom(rest, depth + 1).trim().to_string() } else { String::new() }
}

fn command(rest: &mut &str, depth: usize) -> String {
    let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    if name.is_empty() {
        return match next(rest) {
            Some('\\') => {
                *rest = rest.trim_start();
                "\n".to_string()
            }
            Some(',' | ';' | ':' | ' ') => " ".to_string(),
            Some('!' | '(' | ')' | '[' | ']') | None => String::new(),
            Some('|') => "‖".to_string(),
            Some(c) => c.to_string(),
        };
    }
    *rest = after;
    let one_of = |table: &str| table.split_whitespace().any(|word| word == name);
    let behind = |table: &'static str| {
        let mut words = table.split_whitespace();
        words.find(|word| *word == name).and_then(|_| words.next())
    };
    if let Some(sign) = behind(SIGNS) {
        return sign.to_string();
    }
    if let Some(mark) = behind(MARKS) {
        return argument(rest, depth) + mark;
    }
    match name {
        "frac" | "dfrac" | "tfrac" | "cfrac" => {
            let [above, below] = [(); 2].map(|()| apart(argument(rest, depth)));
            format!("{above}/{below}")
        }
        "sqrt" => {
            let index = rest.strip_prefix('[').and_then(|index| index.split_once(']'));
            let index = index.map(|(index, after)| {
                *rest = after;
                script('^', index)
            });
            format!("{}√{}", index.unwrap_or_default(), apart(argument(rest, depth)))
        }
        "binom" => format!("({} over {})", argument(rest, depth), argument(rest, depth)),
        "mathbb" => mapped(&argument(rest, depth), BOARD).unwrap_or_else(|kept| kept),
        "begin" | "end" => {
            argument(rest, depth);
            *rest = rest.trim_start();
            String::new()
        }
        "quad" | "qquad" => "  ".to_string(),
        _ if one_of(NOTHING) => {
            // `\left.` is a bracket that is not there.
            *rest = rest.strip_prefix('.').unwrap_or(rest);
            String::new()
        }
        _ if one_of(AS_IS) => argument(rest, depth),
        _ if one_of(NAMES) => name.to_string(),
        _ => format!("\\{name}"),
    }
}

/// In brackets, if it would not stay together without them.
fn apart(part: String) -> String {
    let whole = part.chars().all(|c| c.is_alphanumeric() || "√∂′∞⁰¹²³".contains(c));
    if whole { part } else { format!("({part})") }
}

fn script(sign: char, part: &str) -> String {
    let bare = part.replace(' ', "");
    if bare == "∘" {
        return "°".to_string();
    }
    mapped(&bare, if sign == '^' { ABOVE } else { BELOW }).unwrap_or_else(|_| {
        let one = bare.chars().count() == 1;
        if one { format!("{sign}{bare}") } else { format!("{sign}({part})") }
    })
}

/// Every character by `table`.
///
/// # Errors
/// It lacks one: the part as it was.
fn mapped(part: &str, table: &str) -> Result<String, String> {
    let find = |c| {
        let pairs: Vec<char> = table.chars().collect();
        pairs.chunks(2).find(|pair| pair[0] == c).map(|pair| pair[1])
    };
    part.chars().map(find).collect::<Option<String>>().ok_or_else(|| part.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn formulas_are_readable_in_one_row() {
        for (tex, shown) in [
            (r"x^2 + y_1 = \alpha", "x² + y₁ = α"),
            (r"\frac{a}{b} + \frac{1}{x+1}", "a/b + 1/(x+1)"),
            (r"\sum_{i=1}^{n} i = \frac{n(n+1)}{2}", "∑ᵢ₌₁ⁿ i = (n(n+1))/2"),
            (r"\sqrt{2} \approx 1.414, \sqrt[3]{x + y}", "√2 ≈ 1.414, ³√(x + y)"),
            (r"e^{i\pi} + 1 = 0", "e^(iπ) + 1 = 0"),
            (r"x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}", "x = (−b ± √(b² − 4ac))/2a"),
            (r"f\colon \mathbb{R} \to \mathbb{R}", r"f\colon ℝ → ℝ"),
            (r"\left( \int_0^\infty e^{-x}\,dx \right)", "( ∫₀^∞ e⁻ˣ dx )"),
            (r"\text{if } x \le 90^\circ", "if x ≤ 90°"),
            (r"\begin{aligned} a &= b \\ &= c \end{aligned}", "a = b \n= c "),
            (r"\hat{y} = \lim_{x \to 0} \sin x", "y\u{302} = lim_(x → 0) sin x"),
            ("}x", "x"),
        ] {
            assert_eq!(unicode(tex), shown, "{tex}");
        }
    }

    #[test]
    fn any_depth_is_read_in_bounds() {
        for begin in ["{", "^", "\\frac{", "\\sqrt", "\\hat"] {
            unicode(&begin.repeat(100_000));
        }
    }

    proptest! {
        #[test]
        fn anything_is_read(tex in r"[a-z{}^_\\ 0-9\[\]é&]{0,60}") {
            unicode(&tex);
        }
    }
}
