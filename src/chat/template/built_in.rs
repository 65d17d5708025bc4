//! Formats for models that have no template.

/// `User:` and `Assistant:` lines.
const PLAIN: &str = "\
{%- for message in messages -%}
{%- if message.role == 'system' -%}{{ message.content }}{{ '\n\n' }}
{%- elif message.role == 'user' -%}{{ 'User: ' + message.content + '\n' }}
{%- else -%}{{ 'Assistant: ' + message.content + '\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ 'Assistant:' }}{%- endif -%}";

/// Vicuna's format.
const VICUNA: &str = "\
{%- if messages[0].role == 'system' -%}
{%- set system = messages[0].content -%}{%- set turns = messages[1:] -%}
{%- else -%}
{%- set system = 'A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user\\'s questions.' -%}
{%- set turns = messages -%}
{%- endif -%}
{{ system }}
{%- for message in turns -%}
{%- if message.role == 'user' -%}{{ ' USER: ' + message.content }}
{%- else -%}{{ ' ASSISTANT: ' + message.content + eos_token }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ ' ASSISTANT:' }}{%- endif -%}";

/// ChatML, which files name instead of carrying it.
const CHATML: &str = "\
{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}";

/// The source of the format of this name.
pub(super) fn named(name: &str) -> Option<&'static str> {
    (name == "chatml").then_some(CHATML)
}

/// Whether a model of this name was trained to chat, by the words that publishers put there.
pub(super) fn says_chat(model_name: &str) -> bool {
    let name = model_name.to_lowercase();
    let mut words = name.split(|c: char| !c.is_alphanumeric());
    ["vicuna", "instruct", "chat"].iter().any(|word| name.contains(word))
        || words.any(|word| word == "it")
}

/// The source for a model of this name, and the text that ends its answers: Vicuna's format if the
/// name says so, otherwise plain lines.
pub(super) fn source_for(model_name: &str) -> (&'static str, &'static str) {
    let vicuna = model_name.to_lowercase().contains("vicuna");
    if vicuna { (VICUNA, "USER:") } else { (PLAIN, "\nUser:") }
}
