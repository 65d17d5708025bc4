"""Corpus -> tokenizer.json, data.pkl (token ids by source, training and held-out) and heldout.jsonl (text)."""
import argparse
import collections
import hashlib
import io
import json
import os
import pickle
import random
import re

import numpy as np
import zstandard
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

import own_text

SPECIAL = ["<|pad|>", "<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
CHAT_SOURCES = set(
    "ms_chitchat_caring ms_chitchat_friendly ms_chitchat_professional chatterbot_en synthetic_identity fun_dialogues "
    "aesop_fables_chat pratham_storyweaver african_storybook synthetic_persona_chat open_trivia_qa oewn_qa wordset_define "
    "factbook_qa synthetic_tasks llms_from_scratch_instruct self_dialogue openstax_glossary".split()
)
LONG_STORIES = {"pratham_storyweaver", "african_storybook"}   # those above 3,000 characters are left out
# Passages of the children's books are found by two of these words.
CHILDREN = (
    "Dorothy|Alice|Doctor Dolittle|Anne |Toto|Psammead|Peter Pan|Wendy|Mary |Rabbit|Mole|Pollyanna|Oz|Bobbie|fairy|Princess"
).split("|")
# Small talk that contradicts the persona: refusals of jokes and other makers go, the missing name is filled in.
CONTRADICTS = re.compile(
    r"any jokes|can't think of one|not really that funny|Humor's not|lack of comedy|tricky for a bot"
    r"|whole team of people|People made me|People created me"
)
NAME_ANSWERS = ["My name is Dovetail.", "I am called Dovetail.", "You can call me Dovetail."]
# At most so many records of a source when the tokenizer is trained.
TOKENIZER_RECORDS = dict(self_dialogue=4000, standard_ebooks=400, onestop_english=300, oewn_qa=20000, open_trivia_qa=15000,
                         wordset_define=5000, openstax_glossary=3000)


def records(path):
    with open(path, "rb") as f:
        for line in io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(f), encoding="utf8"):
            yield json.loads(line)


def held_out(chat):
    text = "\n".join(t for _, t in chat)
    return int(hashlib.sha1(text.encode()).hexdigest(), 16) % 100 == 0


def chats(corpus, r):
    for rec in records(os.path.join(corpus, "chat.jsonl.zst")):
        source = rec["source"]
        if source not in CHAT_SOURCES:
            continue
        chat = [(m["role"], m["content"].strip()) for m in rec["messages"]]
        if source in LONG_STORIES and sum(len(t) for _, t in chat) > 3000:
            continue
        if source == "self_dialogue" and r.random() < 0.5 or any("(name)" in t for _, t in chat):
            continue
        if source.startswith("ms_chitchat"):
            if CONTRADICTS.search(chat[1][1]):
                continue
            if "have a name" in chat[1][1]:
                chat[1] = ("assistant", r.choice(NAME_ANSWERS))
        yield source, chat
    for rec in records(os.path.join(corpus, "text.jsonl.zst")):
        source, text = rec["source"], rec["text"].strip()
        children = source == "standard_ebooks" and len(text) > 500 and sum(w in text for w in CHILDREN) >= 2
        if source == "onestop_english" or children:
            yield source, [("text", text)]
    for source, made in own_text.make().items():
        yield from ((source, c) for c in made)


def train_tokenizer(docs, r):
    def texts():
        for source, ds in docs.items():
            for d in r.sample(ds, min(TOKENIZER_RECORDS.get(source, len(ds)), len(ds))):
                yield from (t for _, t in d)

    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(texts(), trainers.BpeTrainer(
        vocab_size=4096, limit_alphabet=300, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[AddedToken(t, special=True, normalized=False) for t in SPECIAL]))
    return tok


def encode(tok, docs):
    out = {}
    for source, ds in docs.items():
        ids = iter(tok.encode_batch([t for d in ds for _, t in d], add_special_tokens=False))
        out[source] = [[(role, np.array(next(ids).ids, dtype=np.int16)) for role, _ in d] for d in ds]
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("corpus", help="folder with chat.jsonl.zst and text.jsonl.zst")
    p.add_argument("work", help="folder for what is made")
    p.add_argument("--tokenizer", help="use this tokenizer.json instead of training one")
    a = p.parse_args()
    os.makedirs(a.work, exist_ok=True)
    r = random.Random(7)
    train, held = collections.defaultdict(list), collections.defaultdict(list)
    for source, chat in chats(a.corpus, r):
        (held if held_out(chat) else train)[source].append(chat)
    tok = Tokenizer.from_file(a.tokenizer) if a.tokenizer else train_tokenizer(train, r)
    tok.save(os.path.join(a.work, "tokenizer.json"))
    split = encode(tok, train), encode(tok, held)
    with open(os.path.join(a.work, "data.pkl"), "wb") as f:
        pickle.dump(split, f)
    with open(os.path.join(a.work, "heldout.jsonl"), "w", encoding="utf8") as f:
        for source, ds in held.items():
            for d in ds:
                f.write(json.dumps({"source": source, "messages": [{"role": x, "content": t} for x, t in d]}) + "\n")
    for source, ds in split[0].items():
        print(f"{source:28} {len(ds):6} records {sum(len(t) for d in ds for _, t in d) // 1000:6}k tokens, held out {len(held[source])}")


if __name__ == "__main__":
    main()
