use super::*;
use minijinja::context;
use proptest::prelude::*;

fn rendered(source: &str) -> Result<String, Fault> {
    let root = context! { text => "Hello", list => ["a", "b"], map => context! { key => 1 } };
    Jinja::new(source.to_owned())?.render(&root, 5, 1, 0)
}

fn limit(source: &str) -> String {
    match rendered(source) {
        Err(Fault::Limit(limit)) => limit,
        other => {
            panic!("{:?} of {}", other.map(|text| text.len()), &source[..source.len().min(99)])
        }
    }
}

/// The same without our changes.
fn bare(source: &str) -> Result<String, Error> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().unwrap();
    environment.set_syntax(syntax);
    environment.set_debug(false);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    let root = context! { text => "Hello", list => ["a", "b"], map => context! { key => 1 } };
    environment.render_str(source, root)
}

#[test]
fn texts_that_double_are_cut_off() {
    let times = |step: &str| {
        format!(
            "{{% set n = namespace(s='x' * 1000) %}}{{% for i in range(40) %}}{step}{{% endfor %}}"
        )
    };
    for step in [
        "{% set n.s = n.s + n.s %}",
        "{% set n.s = n.s ~ n.s %}",
        "{% set n.s = n.s * 2 %}",
        "{% set n.s = [n.s, n.s] | join %}",
        "{% set n.s = ''.join([n.s, n.s]) %}",
        "{% set n.s = n.s | replace('x', 'xx') %}",
        "{% set n.s = n.s.replace('x', 'xx') %}",
        "{% set n.s = n.s.replace('', 'x') %}",
        "{% set n.s = '%s%s' % (n.s, n.s) %}",
        "{% set n.s = n.s | indent(n.s) ~ n.s %}",
        "{% set n.s = '{}{}'.format(n.s, n.s) %}",
        "{% set n.s = '%s%s' | format(n.s, n.s) %}",
        "{% set n.s %}{{ n.s }}{{ n.s }}{% endset %}",
        "{% set n.s = [n.s, n.s] | string %}",
        "{% set n.s = [n.s, n.s] | tojson %}",
        "{% set n.s = [n.s, n.s] %}",
        "{% set n.s = {'a': n.s, 'b': n.s} %}",
        "{% set n.s = n.s | list + n.s | list %}",
        "{% set n.s = (n.s, n.s) %}",
        "{% macro twice() %}{{ n.s }}{{ n.s }}{% endmacro %}{% set n.s = twice() %}",
    ] {
        let what = limit(&times(step));
        assert!(what.contains("bytes") || what.contains("nests"), "{step}: {what}");
    }
}

#[test]
fn a_small_word_for_a_large_text_is_refused() {
    for source in [
        "{{ text | indent(1000000000) }}",
        "{{ text | indent(width=1000000000, first=true) }}",
        "{{ '{:>1000000000}'.format(text) }}",
        "{{ '%1000000000s' | format(text) }}",
        "{{ '%*s' | format(1000000000, text) }}",
        "{{ strftime_now('%A' * 1000000) }}",
        "{{ list | map('indent', 1000000000) | list }}",
        "{{ text.zfill(1000000000) }}",
        "{{ text.center(width=1000000000) }}",
        "{{ text.ljust(1000000000, '*') }}",
        "{{ 'a\t'.expandtabs(1000000000) }}",
        "{{ text | center(1000000000) }}",
        "{{ list | map('center', 1000000000) | list }}",
        "{{ [1] | batch(1000000000, 0) }}",
        "{{ [1] | slice(1000000000, 0) }}",
        "{{ '%1000000000d' % 5 }}",
        "{{ '%*d' % (1000000000, 5) }}",
        "{{ 'x' * 90000000 }}",
        "{{ [1] * 90000000 }}",
        "{% set l = 'x' * 4000000 %}{% for i in range(9000) %}{{ l }}{% endfor %}",
        "{% for i in range(9000) %}{% for i in range(9000) %}0123456789{% endfor %}{% endfor %}",
        "{% set a %}{% for i in range(9000) %}{% for i in range(900) %}0123456789{% endfor %}\
            {% endfor %}{% endset %}",
    ] {
        limit(source);
    }
    let date = format!("{{{{ strftime_now('{}') }}}}", "%A".repeat(100_000));
    assert!(limit(&date).contains("its date format has 200000 bytes"));
    assert!(limit(&" ".repeat(LONGEST_SOURCE + 1)).contains("bytes, and the limit is"));
}

#[test]
fn nesting_is_looked_at_before_parsing() {
    let many = |part: &str| part.repeat(100_000);
    for source in [
        format!("{{{{ 1{} }}}}", many("+1")),
        format!("{{{{ 'a'{} }}}}", many("~'a'")),
        format!("{{{{ {}1 }}}}", many("not ")),
        format!("{{{{ {}1 }}}}", many("-")),
        format!("{{{{ 1{} }}}}", many("**1")),
        format!("{{{{ text{} }}}}", many("|f")),
        format!("{{{{ text{} }}}}", many(".a")),
        format!("{{{{ text{} }}}}", many("[0]")),
        format!("{{{{ {} }}}}", many("(")),
        format!("{{{{ {} }}}}", many("[")),
        format!("{{{{ 1{} }}}}", many(" if 1 else 1")),
        format!("{{% set {} %}}", many("(")),
        format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(5_000)),
    ] {
        limit(&source);
    }
    // The parser's own limit.
    let source = "{% if 1 %}".repeat(20_000);
    assert!(matches!(rendered(&source), Err(Fault::Syntax(_))));
    // Everything within the limits fits on the stack.
    for part in ["+1", "-1", " and 1", "~1", "**1", ".a", "|string"] {
        let chain = part.repeat(990);
        let _ = rendered(&format!("{{{{ 1{chain} }}}}"));
        let _ = rendered(&format!("{{{{ {}1 }}}}", "not ".repeat(1990)));
    }
    let branches = "{% elif 0 %}".repeat(MOST_BRANCHES - 1);
    assert_eq!(
        rendered(&format!("{{% if 0 %}}{branches}{{% else %}}x{{% endif %}}")).unwrap(),
        "x"
    );
}

#[test]
fn values_that_hold_themselves_are_refused() {
    for source in [
        "{% set n = namespace() %}{% set n.n = n %}{{ n }}",
        "{% set n = namespace() %}{% set l = [[n]] %}{% set n.l = l %}{{ n }}",
        "{% set n = namespace(l=[]) %}{% for i in range(9999) %}{% set n.l = [n.l] %}{% endfor %}",
        "{% set n = namespace(l={}) %}{% for i in range(9999) %}{% set n.l = {'a': n.l} %}\
            {% endfor %}",
        "{% set n = namespace(l=[]) %}{% for i in range(9999) %}{% set n.l = dict(a=n.l) %}\
            {% endfor %}",
    ] {
        limit(source);
    }
    // Lazy views of views, 10,000 deep, if each were stored.
    let views = "{% set n = namespace(l=[1,2]) %}{% for i in range(9999) %}\
        {% set n.l = n.l[::-1] %}{% set n.l = n.l | reverse %}{% endfor %}{{ n.l }}";
    assert_eq!(rendered(views).unwrap(), "[1, 2]");
}

#[test]
fn endless_work_is_cut_off() {
    let loops = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}\
        {% endfor %}{% endfor %}{% endfor %}";
    assert!(limit(loops).contains("steps"));
    let calls = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}";
    assert!(matches!(rendered(calls), Err(Fault::Refused(_))));
}

#[test]
fn a_long_complaint_is_cut() {
    let Err(Fault::Refused(reason)) = rendered("{{ raise_exception('é' * 100000) }}") else {
        panic!()
    };
    assert!(reason.chars().count() < 500 && reason.contains("line 1"), "{reason}");
}

#[test]
fn honest_templates_say_what_they_said() {
    for source in [
        "a {{ text }} {{- ' b' }}\n{% if text == 'Hello' %}\nyes\n{% else %}no{% endif %}",
        "{% for x in list %}{{ loop.index }}{{ x }}{% if loop.last %}!{% endif %}{% else %}none\
            {% endfor %}",
        "{% for x in list[::-1] if x != 'a' %}{{ x }}{% endfor %}{{ list[0] }}{{ list[-1:] }}",
        "{% for k, v in map | items %}{{ k }}={{ v }}{% endfor %}{{ map.key }}{{ map['key'] }}",
        "{% macro m(a, b=2) %}<{{ a }}{{ b }}{{ caller() if caller }}>\
            {% endmacro %}{{ m(1) }}{{ m(3, b=4) }}{% call m(5) %}x{% endcall %}",
        "{% set ns = namespace(n=0) %}{% for x in list %}{% set ns.n = ns.n + 1 %}\
            {% endfor %}{{ ns.n }}",
        "{% set a, b = 1, 2 %}{{ a + b }}{{ a - b }}{{ a * b }}{{ 7 // 2 }}{{ 2 ** 5 }}{{ 7 % 4 }}",
        "{% set x %}in{{ text }}{% endset %}{{ x | upper }}{% filter upper %}q{{ x }}\
            {% endfilter %}",
        "{{ [1, 2] + [3] }}{{ (1, 2) }}{{ 'ab' in text }}{{ 1 < 2 < 3 }}{{ not text }}{{ none }}\
            {{ missing }}",
        "{{ text.split('l') | join('-') }}{{ text.replace('l', 'L') }}\
            {{ text | replace('H', 'J') }}",
        "{{ 'a\nb' | indent }}{{ 'a\nb' | indent(2, true) }}{{ '%s=%d' | format('a', 1) }}\
            {{ '{}-{:>4}'.format(1, 2) }}",
        "{{ 'a\nb' | indent(width=2, first=true) }}{{ [map, map] | join(',', attribute='key') }}\
            {{ list | join(d='+') }}",
        "{{ list | map('upper') | list }}{{ list | select('eq', 'a') | first }}\
            {{ list | reverse | list }}{{ range(3) | list }}",
        "{% for a in [1, [2, [3]]] recursive %}{{ loop(a) if a is iterable else a }}{% endfor %}",
        "{% autoescape true %}<b>{{ '<i>' }}{% endautoescape %}",
        "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}\
            {% break %}{% endif %}{{ x }}{% endfor %}",
        "{{ text if list else 'no' }}{{ text and 1 }}{{ 0 or text }}{% block b %}in\
            {% endblock %}{{ text is string }}{{ 3 is odd }}",
        "{% with a = 1 %}{{ a }}{% endwith %}{% raw %}{{ raw }}{% endraw %}{# no #}{{ dict(a=1) }}",
    ] {
        assert_eq!(rendered(source).unwrap(), bare(source).unwrap(), "{source}");
    }
    for source in
        ["a\n\n{{ 1 + 'x' }}", "{% if x %}\n{{ y.z.w }}{% endif %}\n{{ y.z.w }}", "{{ f() }}"]
    {
        let Err(Fault::Refused(ours)) = rendered(source) else { panic!("{source}") };
        assert_eq!(ours, describe(&bare(source).unwrap_err()));
    }
}

/// What Python's Jinja2 made of each template, by `tests/chat/jinja2/record.py`.
#[test]
fn templates_render_as_in_jinja2() {
    let recorded = include_str!("../../../tests/chat/jinja2/recorded.jsonl");
    let mut lines = recorded.lines();
    let root: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    let mut wrong = Vec::new();
    for line in lines {
        let (source, right): (String, Option<String>) = serde_json::from_str(line).unwrap();
        let marked = crate::chat::template::without_generation_marks(&source);
        let ours = Jinja::new(marked).and_then(|jinja| jinja.render(&root, 100, 4, 0));
        if ours.as_ref().ok() != right.as_ref() {
            wrong.push(format!("{source:?}: {ours:?}, and Jinja2: {right:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Sentences of Jinja's words, most of them meaningless: none takes long or ends the process.
    #[test]
    fn any_words_end(words in proptest::collection::vec(prop_oneof![
        Just("{{"), Just("}}"), Just("{%"), Just("%}"), Just("for"), Just("in"), Just("if"),
        Just("endfor"), Just("endif"), Just("set"), Just("text"), Just("list"), Just("="),
        Just("+"), Just("*"), Just("~"), Just("("), Just(")"), Just("["), Just("]"), Just("|"),
        Just("join"), Just("indent"), Just("9999999"), Just("range"), Just("'x'"), Just("."),
        Just("macro"), Just("endmacro"), Just("not"), Just("-"), Just("elif"), Just("namespace"),
    ], 0..60)) {
        let _ = rendered(&words.join(" "));
    }
}
