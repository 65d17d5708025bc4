"""Writes the pair in the published layout: OUT/target and OUT/small (bfloat16), OUT/head (float16); the two drafts if they are there."""
import argparse
import json
import os
import shutil

import torch
from safetensors.torch import save_file

from model import HEAD_BLOCKS, Config
from prepare import SPECIAL
from train_small import SMALL

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] | trim + '<|end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


MODEL = dict(
    attention_bias=False, attention_dropout=0.0, mlp_bias=False, initializer_range=0.02, tie_word_embeddings=True,
    torch_dtype="bfloat16", use_cache=True,
)


def write(path, value):
    with open(path, "w") as f:
        f.write(json.dumps(value, indent=2) + "\n")


def config(c, layers):
    return dict(
        architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu", hidden_size=c.hidden,
        intermediate_size=c.inter, num_hidden_layers=layers, num_attention_heads=c.n_head, num_key_value_heads=c.n_kv,
        vocab_size=c.vocab, max_position_embeddings=c.max_pos, rms_norm_eps=c.eps, rope_theta=c.theta, rope_scaling=None,
        bos_token_id=1, eos_token_id=2, pad_token_id=0, pretraining_tp=1,
    )


def weights(path, prefix, dtype, out):
    state = torch.load(path, weights_only=False)["model"]
    save_file({prefix + k: v.to(dtype).contiguous() for k, v in state.items()}, out, metadata={"format": "pt"})
    os.chmod(out, 0o644)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("work")
    p.add_argument("out")
    a = p.parse_args()
    c, target, head = Config(), os.path.join(a.out, "target"), os.path.join(a.out, "head")
    os.makedirs(target, exist_ok=True)
    os.makedirs(head, exist_ok=True)
    weights(os.path.join(a.work, "target.pt"), "model.", torch.bfloat16, os.path.join(target, "model.safetensors"))
    write(os.path.join(target, "config.json"), config(c, c.n_layer) | MODEL)
    write(os.path.join(target, "generation_config.json"), dict(
        bos_token_id=1, eos_token_id=2, pad_token_id=0, do_sample=False, max_new_tokens=256))
    shutil.copy(os.path.join(a.work, "tokenizer.json"), os.path.join(target, "tokenizer.json"))
    write(os.path.join(target, "tokenizer_config.json"), dict(
        tokenizer_class="PreTrainedTokenizerFast", bos_token=SPECIAL[1], eos_token=SPECIAL[2], pad_token=SPECIAL[0],
        unk_token=None, add_bos_token=False, add_eos_token=False, clean_up_tokenization_spaces=False,
        model_max_length=c.max_pos, chat_template=TEMPLATE, added_tokens_decoder={
            str(i): dict(content=t, special=True, normalized=False, lstrip=False, rstrip=False, single_word=False)
            for i, t in enumerate(SPECIAL)}))
    path = os.path.join(a.work, "head", "head.pt")
    if os.path.exists(path):
        weights(path, "", torch.float16, os.path.join(head, "model.safetensors"))
        write(os.path.join(head, "config.json"), config(c, HEAD_BLOCKS) | dict(
            bias=False, draft_type="dgf", elastic_depth=True, tie_word_embeddings=False, torch_dtype="float16"))
    path = os.path.join(a.work, "small.pt")
    if os.path.exists(path):
        # Its tokenizer is the target's.
        c, small = Config(**SMALL), os.path.join(a.out, "small")
        os.makedirs(small, exist_ok=True)
        weights(path, "model.", torch.bfloat16, os.path.join(small, "model.safetensors"))
        write(os.path.join(small, "config.json"), config(c, c.n_layer) | MODEL)


if __name__ == "__main__":
    main()
