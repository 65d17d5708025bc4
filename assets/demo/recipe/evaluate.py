"""Acceptance of the published pair: tau by prompt category and by the number of blocks, greedy.

tau = committed tokens / target tree forwards; the bonus token counts, the prefill does not. Every text is checked against
plain greedy decoding.
"""
import argparse
import collections
import json
import os

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from data import ASSISTANT, BEGIN, END, USER
from model import HEAD_BLOCKS, Head, Target
from tree import plain, speculate

FIXED = [
    "Hello!", "Who are you?", "What can you do?", "How are you today?", "What is your name?", "Tell me a story.",
    "Tell me a story about a brave mouse.", "Tell me a joke.", "Write a poem.", "I am sad today.", "I had a long day at work.",
    "What is a river?", "What is the capital of Italy?", "What is 7 + 5?", "What does \"brave\" mean?", "Do you like music?",
    "What is speculative decoding?", "Explain quantum mechanics.", "Can you write a program for me?", "Good night!",
]


def load_pair(folder):
    target, head = Target(), Head()
    state = load_file(os.path.join(folder, "target", "model.safetensors"))
    target.load_state_dict({k.removeprefix("model."): v.float() for k, v in state.items()})
    head.load_state_dict({k: v.float() for k, v in load_file(os.path.join(folder, "head", "model.safetensors")).items()})
    return target.eval(), head.eval(), Tokenizer.from_file(os.path.join(folder, "target", "tokenizer.json"))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("pair", help="folder with target/ and head/")
    p.add_argument("prompts", help="JSON lines with id, category and turns")
    p.add_argument("--blocks", type=int, nargs="*", default=list(range(1, HEAD_BLOCKS + 1)))
    p.add_argument("--limit", type=int, default=128, help="new tokens a turn")
    p.add_argument("--nodes", type=int, default=16, help="tree nodes with the root")
    p.add_argument("--width", type=int, default=10)
    p.add_argument("--depth", type=int, default=7)
    p.add_argument("--answers", action="store_true", help="print the answers to twenty fixed prompts instead")
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    target, head, tok = load_pair(a.pair)
    encode = lambda s: tok.encode(s.strip(), add_special_tokens=False).ids
    if a.answers:
        for q in FIXED:
            print(f"> {q}\n{tok.decode(plain(target, [BEGIN, USER] + encode(q) + [END, ASSISTANT], 200, END)).strip()}\n")
        return
    committed, forwards, differ = collections.Counter(), collections.Counter(), 0
    for line in open(a.prompts, encoding="utf8"):
        prompt, ids = json.loads(line), [BEGIN]
        for turn in prompt["turns"]:
            ids += [USER] + encode(turn) + [END, ASSISTANT]
            text = plain(target, ids, a.limit, END)
            for m in a.blocks:
                new, accepted = speculate(target, head, ids, m, a.limit, END, a.width, a.depth, a.nodes)
                # Rounds may run past the end of the answer: count what is kept.
                kept, rounds, done = len(text) - 1, 0, 0
                for n in accepted:
                    if done >= kept:
                        break
                    done += n + 1
                    rounds += 1
                differ += new[:len(text)] != text
                for key in ((prompt["category"], m), ("all", m)):
                    committed[key] += kept
                    forwards[key] += rounds
            ids += text if text[-1] == END else text + [END]
    print("| prompts | " + " | ".join(f"m = {m}" for m in a.blocks) + " | tokens |\n|---" * 1 + "|" + "---|" * (len(a.blocks) + 1))
    for category in sorted({c for c, _ in committed}, key=lambda c: (c == "all", c)):
        cells = [f"{committed[category, m] / max(1, forwards[category, m]):.2f}" for m in a.blocks]
        print(f"| {category} | " + " | ".join(cells) + f" | {committed[category, a.blocks[0]]} |")
    print(f"texts that differ from plain greedy decoding: {differ}")


if __name__ == "__main__":
    main()
