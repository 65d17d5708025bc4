#!/usr/bin/env bash
# Fills the corpus of every fuzz target with small valid files. Needs jq.
set -euo pipefail
cd "$(dirname "$0")/../.."
corpus=tests/fuzz/corpus
mkdir -p $corpus/{gguf,safetensors,tokenizer,chat_template,session,settings,record,ngrams,packed}
mkdir -p $corpus/{kv_cache,import,keys,eagle3_config}

# Headers only: the target puts zeros behind them.
for file in tests/golden/arch/*.gguf; do
  head -c 24576 "$file" >"$corpus/gguf/$(basename "$file")"
done

cp tests/golden/tree_draft_*.safetensors tests/golden/draft_forward_*.safetensors \
  $corpus/safetensors/
header='{"a":{"dtype":"F16","shape":[2,1],"data_offsets":[0,4]}}'
printf '\x38\0\0\0\0\0\0\0%s\0\0\0\0' "$header" >$corpus/safetensors/small

# Byte-level: the bundled one without merges; SentencePiece as it is.
jq -c '.model.merges = [] | .model.vocab |= with_entries(select(.value < 300))' \
  assets/demo/target/tokenizer.json >$corpus/tokenizer/byte_level
jq -c . tests/library/data/sentence_piece.json >$corpus/tokenizer/sentence_piece
cat >$corpus/tokenizer/small <<'JSON'
{"added_tokens":[{"id":3,"content":"<|end|>","single_word":false,"lstrip":false,"rstrip":true,
"normalized":false,"special":true}],"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},
{"type":"Prepend","prepend":"_"},{"type":"Replace","pattern":{"Regex":" +"},"content":"_"}]},
"pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\s+|\\w+"},"behavior":"Isolated",
"invert":false},"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":
{"id":"<|end|>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":
{"<|end|>":{"id":"<|end|>","ids":[3],"tokens":["<|end|>"]}}},"decoder":{"type":"ByteFallback"},
"model":{"type":"BPE","unk_token":"a","byte_fallback":true,"vocab":{"a":0,"b":1,"ab":2},
"merges":[["a","b"]]}}
JSON

jq -rj .chat_template assets/demo/target/tokenizer_config.json >$corpus/chat_template/bundled
cat >$corpus/chat_template/llama <<'JINJA'
{{- bos_token }}{% set date = strftime_now("%d %b %Y") if strftime_now is defined else "today" %}
{%- if messages[0].role == 'system' %}{% set system = messages[0]['content']|trim %}
{%- set messages = messages[1:] %}{% else %}{% set system = "" %}{% endif %}
{{- "<|system|>" + date + system + "</s>" }}
{%- for message in messages %}{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('roles must alternate') }}{% endif %}
{{- '<|' + message.role + '|>\n' + message.content | trim + eos_token }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}
JINJA
cat >$corpus/chat_template/namespace <<'JINJA'
{%- macro turn(m) -%}{{ m.content.split('</think>')[-1].lstrip('\n') | replace('a', 'b') }}
{%- endmacro -%}{%- set ns = namespace(n=0, all=[]) -%}
{%- for m in messages[::-1] -%}{%- set ns.n = ns.n + m.content | length -%}{%- if loop.last -%}
{%- continue -%}{%- endif -%}{{ turn(m) }}{{ m | tojson(indent=2) }}{% generation %}{{ ns.n ~ 'x' * 3 }}
{%- endgeneration -%}{%- endfor -%}{{ range(3) | map('string') | join(', ') | upper | title }}
{%- for k, v in messages[0].items() if v is string -%}{{ "%s" | format(k) }}{% endfor %}
JINJA

cat >$corpus/session/one <<'JSON'
{"title":"A fox (copy 2)","created":1760000000,"updated":1760000001,"target":"demo","messages":[
{"role":"system","content":"Be brief.","at":1760000000},{"role":"user","content":"A fox\n?",
"at":1760000000},{"role":"assistant","content":"\u00fc","at":1760000001,"interrupted":true}]}
JSON

# The README's own settings.
sed -n '/^```toml/,/^```$/p' assets/docs/settings.md | grep -v '^```' >$corpus/settings/readme
cat >$corpus/settings/more <<'TOML'
stop = ["a", "b"]
rest_text = "notes.txt"
sampler.top_k = 0x28
sampler.min_p = 5e-2
controls = { width = 8, depth = "auto" }
TOML

# The scripts of the tests are records but for the first line and the questions.
head='{"type":"record","format":2,"program":"0","kv":"f32","gpu_layers":"auto","stop":[]}'
question='{"type":"question","messages":[{"role":"user","content":"Hello"}],"max_tokens":9,
"thinking":null,"sampler":{"temperature":0,"top_k":0,"top_p":1,"min_p":0,
"repetition_penalty":1,"presence_penalty":0,"frequency_penalty":0,"seed":1}}'
for script in tests/scripts/*.jsonl; do
  { echo "$head" && grep '^{' "$script" | awk -v question="$(tr -d '\n' <<<"$question")" \
    '/"type":"first"/ { print question } { print }'; } >"$corpus/record/$(basename "$script")"
done

# Slots of 16 bytes, to which the target adds the header; a header.
head -c 4096 /dev/zero >$corpus/ngrams/empty
head -c 4096 /dev/urandom >$corpus/ngrams/full
echo '{"kind":"dovetail n-grams 1","made_for":{"name":"a","hidden":1,"layers":1,"vocab":1,
"tokenizer":"a"},"places":1,"slots":1}' | tr -d '\n' >$corpus/ngrams/header

# Edits of what the targets store themselves.
for target in packed kv_cache; do
  printf '\x02\x00\x01\x80{\x10\x02\x80"' >$corpus/$target/index
  printf '\x03\x00\x20\x00\x00' >$corpus/$target/cut
  printf '\x00\x00\x10\x00\x01' >$corpus/$target/contents
done

cat >$corpus/import/markdown <<'MARKDOWN'
<!-- dovetail: user -->
**You**

Hello
\<!-- dovetail: user -->

<!-- dovetail: assistant -->
**Model**

Hi
MARKDOWN
echo '{"messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi"}]}' \
  >$corpus/import/json
echo '{"conversations":[{"from":"human","value":"Hello"},{"from":"gpt","value":"Hi"}]}' \
  >$corpus/import/sharegpt

printf 'help ctrl+h f3\ncopy alt+enter shift+tab pgup ?\nmeters f11\n' >$corpus/keys/several

for head in tests/golden/eagle3/head_*; do
  cp "$head/config.json" "$corpus/eagle3_config/$(basename "$head")"
done
