//! What the templates of well-known families use: dates, tools, thoughts and their switch,
//! channels. Each is a short template with the constructions of its family.

use dovetail::chat::{ChatTemplate, Message, Role, SpecialTokens, today};

fn template(source: &str) -> ChatTemplate {
    let tokens = SpecialTokens { bos: "<bos>".to_owned(), ..SpecialTokens::default() };
    ChatTemplate::new(source, "family.jinja", tokens).unwrap()
}

fn user(text: &str) -> Message {
    Message::new(Role::User, text)
}

fn thought(thought: &str, answer: &str) -> Message {
    Message { thought: Some(thought.to_owned()), ..Message::new(Role::Assistant, answer) }
}

/// A question, an answer with thoughts, another question.
fn chat() -> Vec<Message> {
    vec![user("Hi."), thought("A greeting.", "Hello!"), user("Bye.")]
}

fn rendered(template: &ChatTemplate, messages: &[Message]) -> String {
    template.render(messages, true).unwrap()
}

/// Qwen3: thoughts in answers before the last question are left out; an empty block switches them
/// off.
const QWEN_3: &str = r"{%- set last = namespace(user=0) -%}
{%- for m in messages -%}{%- if m.role == 'user' -%}{%- set last.user = loop.index0 -%}{%- endif -%}{%- endfor -%}
{%- for m in messages -%}
{%- if m.role == 'assistant' -%}
{%- set thoughts = m.reasoning_content if m.reasoning_content is string else '' -%}
{{- '[assistant]' -}}
{%- if loop.index0 > last.user and thoughts -%}{{- '<think>' + thoughts.strip('\n') + '</think>' -}}{%- endif -%}
{{- m.content.lstrip('\n') -}}
{%- else -%}{{- '[' + m.role + ']' + m.content -}}{%- endif -%}
{%- endfor -%}
{%- if tools -%}{{- tools | tojson -}}{%- endif -%}
{%- if add_generation_prompt -%}{{- '[assistant]' -}}
{%- if enable_thinking is defined and enable_thinking is false -%}{{- '<think>\n\n</think>\n\n' -}}{%- endif -%}
{%- endif -%}";

#[test]
fn qwen_3_leaves_out_old_thoughts_and_has_a_switch() {
    let template = template(QWEN_3);
    let said = "[user]Hi.[assistant]Hello![user]Bye.[assistant]";
    assert_eq!(rendered(&template, &chat()), said);
    assert!(template.switches_thinking());
    assert_eq!(rendered(&template.with_thinking(Some(true)), &chat()), said);
    let off = template.with_thinking(Some(false));
    assert_eq!(rendered(&off, &chat()), format!("{said}<think>\n\n</think>\n\n"));
    // If no question follows a thought, the template decides whether to keep it.
    let kept = template.render(&chat()[..2], false).unwrap();
    assert_eq!(kept, "[user]Hi.[assistant]<think>A greeting.</think>Hello!");
}

#[test]
fn control_tokens_in_thoughts_are_what_was_said() {
    let template = template(QWEN_3);
    let controls = |text: &str| {
        text.match_indices("[user]").map(|(at, found)| at..at + found.len()).collect::<Vec<_>>()
    };
    let messages = [user("Hi."), thought("A [user] x", "Hello!")];
    let prompt = template.prompt(&messages, false, &controls).unwrap();
    let own: Vec<_> =
        controls(&prompt.text).into_iter().filter(|place| !prompt.says(place)).collect();
    assert!(own.len() == 1 && own[0] == (0..6), "{own:?} in {}", prompt.text);
}

#[test]
fn smollm_3_takes_its_mode_from_the_switch() {
    let template = template(
        r"{%- if enable_thinking is not defined -%}{%- set enable_thinking = true -%}{%- endif -%}
{%- set mode = '/think' if enable_thinking else '/no_think' -%}
{{- 'Mode: ' + mode + '\nToday: ' + strftime_now('%d %B %Y') + '\n' -}}
{%- for m in messages -%}{{- m.role + ':' + m.content + '\n' -}}{%- endfor -%}
{%- if xml_tools or python_tools or tools -%}{{- 'TOOLS' -}}{%- endif -%}
{%- if add_generation_prompt -%}{{- 'assistant:' -}}
{%- if mode == '/no_think' -%}{{- '<think>\n\n</think>\n' -}}{%- endif -%}{%- endif -%}",
    );
    assert!(template.switches_thinking());
    let on = rendered(&template, &chat());
    assert!(on.starts_with("Mode: /think\nToday: ") && on.ends_with("assistant:"), "{on}");
    assert!(on.contains(&today()[..4]) && !on.contains("A greeting."), "{on}");
    let off = rendered(&template.with_thinking(Some(false)), &chat());
    assert!(off.starts_with("Mode: /no_think") && off.ends_with("</think>\n"), "{off}");
}

#[test]
fn deepseek_distills_open_the_thought_themselves() {
    let template = template(
        r"{%- set ns = namespace(system='') -%}{{- bos_token -}}
{%- for m in messages -%}
{%- if m['role'] == 'user' -%}{{- '<U>' + m['content'] -}}
{%- elif m['role'] == 'assistant' and m['content'] is not none -%}
{%- set content = m['content'] -%}
{%- if '</think>' in content -%}{%- set content = content.split('</think>')[-1] -%}{%- endif -%}
{{- '<A>' + content + eos_token -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<A><think>\n' -}}{%- endif -%}",
    );
    assert!(!template.switches_thinking());
    let prompt = template.prompt(&chat(), true, &|_| Vec::new()).unwrap();
    assert_eq!(prompt.text, "<bos><U>Hi.<A>Hello!<U>Bye.<A><think>\n");
    assert!(prompt.opened_thought().is_some());
    // Also if a saved answer still has its thoughts in the text.
    let old = [user("Hi."), Message::new(Role::Assistant, "<think>x</think>Hello!"), user("Bye.")];
    assert_eq!(rendered(&template, &old), prompt.text);
    // What a user types does not open a block.
    let plain = self::template("{% for m in messages %}{{ m.content }}{% endfor %}");
    let typed = plain.prompt(&[user("What is <think>")], true, &|_| Vec::new()).unwrap();
    assert_eq!(typed.opened_thought(), None);
}

#[test]
fn llama_3_is_told_the_date_and_no_tools() {
    let template = template(
        r"{{- bos_token -}}
{%- if not tools is defined -%}{%- set tools = none -%}{%- endif -%}
{%- if not date_string is defined -%}{%- set date_string = '26 Jul 2024' -%}{%- endif -%}
{%- if messages[0]['role'] == 'system' -%}{%- set system = messages[0]['content'] | trim -%}{%- set messages = messages[1:] -%}
{%- else -%}{%- set system = '' -%}{%- endif -%}
{%- if builtin_tools is defined or tools is not none -%}{{- 'Environment: ipython\n' -}}{%- endif -%}
{{- 'Today Date: ' + date_string + '\n' + system -}}
{%- for m in messages -%}
{%- if not (m.role == 'ipython' or m.role == 'tool' or 'tool_calls' in m) -%}{{- '<h>' + m['role'] + '</h>' + m['content'] | trim + '<eot>' -}}
{%- elif 'tool_calls' in m -%}{%- if not m.tool_calls | length == 1 -%}{{- raise_exception('one call') -}}{%- endif -%}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<h>assistant</h>' -}}{%- endif -%}",
    );
    let text = rendered(&template, &[Message::new(Role::System, " Be brief. "), user("Hi.")]);
    let (date, rest) = text.strip_prefix("<bos>Today Date: ").unwrap().split_once('\n').unwrap();
    assert!(date.ends_with(&today()[..4]) && date.len() == "26 Jul 2024".len(), "{date}");
    assert_eq!(rest, "Be brief.<h>user</h>Hi.<eot><h>assistant</h>");
    assert!(!template.switches_thinking());
}

#[test]
fn seed_oss_has_a_budget_for_its_thoughts() {
    let template = template(
        r"{%- if not thinking_budget is defined -%}{%- set thinking_budget = -1 -%}{%- endif -%}
{%- for m in messages -%}{{- '<r>' + m.role + '</r>' + m.content -}}{%- endfor -%}
{%- if thinking_budget == 0 -%}{{- '<r>system</r>Do not think.' -}}{%- endif -%}
{%- if add_generation_prompt -%}{{- '<r>assistant</r>' -}}{%- endif -%}",
    );
    assert!(template.switches_thinking());
    let told = |thinking| rendered(&template.with_thinking(Some(thinking)), &[user("Hi.")]);
    assert_eq!(told(true), "<r>user</r>Hi.<r>assistant</r>");
    assert_eq!(told(false), "<r>user</r>Hi.<r>system</r>Do not think.<r>assistant</r>");
}

#[test]
fn granite_3_has_another_name_for_the_switch() {
    let template = template(
        r"{%- if messages[0]['role'] == 'system' -%}{%- set system = messages[0]['content'] -%}{%- set loop_messages = messages[1:] -%}
{%- else -%}{%- set system = 'Date: ' + strftime_now('%B %d, %Y') + '.' -%}
{%- if tools and documents -%}{%- set system = system + ' Use tools and documents.' -%}
{%- elif thinking -%}{%- set system = system + ' Think first.' -%}{%- endif -%}
{%- set loop_messages = messages -%}{%- endif -%}
{{- '<r>system</r>' + system -}}
{%- if documents -%}{%- for document in documents -%}{{- document['text'] -}}{%- endfor -%}{%- endif -%}
{%- for m in loop_messages -%}{{- '<r>' + m['role'] + '</r>' + m['content'] -}}
{%- if loop.last and add_generation_prompt -%}{{- '<r>assistant' -}}
{%- if controls -%}{{- ' ' + controls | tojson() -}}{%- endif -%}{{- '</r>' -}}{%- endif -%}{%- endfor -%}",
    );
    assert!(template.switches_thinking());
    let on = rendered(&template.with_thinking(Some(true)), &[user("Hi.")]);
    assert!(on.ends_with(". Think first.<r>user</r>Hi.<r>assistant</r>"), "{on}");
    assert!(!rendered(&template, &[user("Hi.")]).contains("Think first"));
}

#[test]
fn gpt_oss_puts_old_answers_on_their_channel() {
    let template = template(
        r"{%- if not model_identity is defined -%}{%- set model_identity = 'You are a model.' -%}{%- endif -%}
{%- if reasoning_effort is not defined -%}{%- set reasoning_effort = 'medium' -%}{%- endif -%}
{%- macro preamble() -%}{{- model_identity + ' ' + strftime_now('%Y-%m-%d') + ' Reasoning: ' + reasoning_effort -}}
{%- if builtin_tools is defined and builtin_tools is not none -%}{{- 'TOOLS' -}}{%- endif -%}{%- endmacro -%}
{{- '<|start|>system<|message|>' -}}{{- preamble() -}}{{- '<|end|>' -}}
{%- for m in messages -%}
{%- if m.role == 'assistant' -%}
{%- if 'tool_calls' in m and m.tool_calls -%}{{- raise_exception('tools') -}}
{%- elif loop.last and not add_generation_prompt -%}
{%- if 'thinking' in m -%}{{- '<|start|>assistant<|channel|>analysis<|message|>' + m.thinking + '<|end|>' -}}{%- endif -%}
{{- '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|return|>' -}}
{%- else -%}{{- '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' -}}{%- endif -%}
{%- else -%}{{- '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}",
    );
    let text = rendered(&template, &chat());
    let identity = format!("You are a model. {} Reasoning: medium", today());
    assert!(text.starts_with(&format!("<|start|>system<|message|>{identity}<|end|>")), "{text}");
    assert!(text.ends_with(
        "<|start|>assistant<|channel|>final<|message|>Hello!<|end|>\
         <|start|>user<|message|>Bye.<|end|><|start|>assistant"
    ));
    let last = template.render(&chat()[..2], false).unwrap();
    assert!(last.contains("<|channel|>analysis<|message|>A greeting.<|end|>"), "{last}");
    // An answer of several messages does not end with the first of them.
    assert_eq!(template.end_of_turn().unwrap(), "<|return|>");
}

#[test]
fn phi_4_mini_looks_for_tools_in_the_system_message() {
    let template = template(
        r"{%- for m in messages -%}
{%- if m['role'] == 'system' and 'tools' in m and m['tools'] is not none -%}{{- '<|system|>' + m['content'] + '<|tool|>' + m['tools'] + '<|/tool|><|end|>' -}}
{%- else -%}{{- '<|' + m['role'] + '|>' + m['content'] + '<|end|>' -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- else -%}{{- eos_token -}}{%- endif -%}",
    );
    let messages = [Message::new(Role::System, "Be brief."), user("Hi.")];
    assert_eq!(
        rendered(&template, &messages),
        "<|system|>Be brief.<|end|><|user|>Hi.<|end|><|assistant|>"
    );
}

#[test]
fn gemma_has_no_system_role_and_calls_the_assistant_model() {
    // Gemma 2 refuses a system message; Gemma 3 puts it before the first question itself.
    let turns = r"{%- for m in loop_messages -%}
{%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) -%}{{- raise_exception('roles must alternate') -}}{%- endif -%}
{%- set role = 'model' if m['role'] == 'assistant' else m['role'] -%}
{{- '<t>' + role + '\n' + (first_user_prefix if loop.first else '') -}}
{%- if m['content'] is string -%}{{- m['content'] | trim -}}
{%- elif m['content'] is iterable -%}{%- for item in m['content'] -%}{{- item['text'] | trim -}}{%- endfor -%}{%- endif -%}
{{- '</t>\n' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<t>model\n' -}}{%- endif -%}";
    let second = format!(
        "{{{{- bos_token -}}}}{{%- if messages[0]['role'] == 'system' -%}}\
         {{{{- raise_exception('System role not supported') -}}}}{{%- endif -%}}\
         {{%- set first_user_prefix = '' -%}}{{%- set loop_messages = messages -%}}{turns}"
    );
    let third = format!(
        "{{{{- bos_token -}}}}{{%- if messages[0]['role'] == 'system' -%}}\
         {{%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}}\
         {{%- set loop_messages = messages[1:] -%}}{{%- else -%}}\
         {{%- set first_user_prefix = '' -%}}{{%- set loop_messages = messages -%}}\
         {{%- endif -%}}{turns}"
    );
    let mut messages = chat();
    messages.insert(0, Message::new(Role::System, "Be brief."));
    for source in [second, third] {
        assert_eq!(
            rendered(&template(&source), &messages),
            "<bos><t>user\nBe brief.\n\nHi.</t>\n<t>model\nHello!</t>\n<t>user\nBye.</t>\n\
             <t>model\n"
        );
    }
}
