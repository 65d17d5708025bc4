"""Chats for a first draft head (../chats.jsonl): training records of the sources that are MIT or CC0-1.0, several joined."""
import argparse
import json
import os
import pickle
import random

from tokenizers import Tokenizer

SOURCES = dict(
    own_echo=14, own_chat=14, own_story=26, ms_chitchat_friendly=12, ms_chitchat_caring=8, ms_chitchat_professional=4,
    synthetic_identity=10, synthetic_tasks=2,
)
PARTS = [1, 2, 3, 3, 4, 5]         # records joined to one chat
LONGEST = 1800                     # characters of a chat


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("work", help="folder with tokenizer.json and data.pkl")
    p.add_argument("out")
    p.add_argument("--bytes", type=int, default=600_000)
    a = p.parse_args()
    tok = Tokenizer.from_file(os.path.join(a.work, "tokenizer.json"))
    with open(os.path.join(a.work, "data.pkl"), "rb") as f:
        docs = pickle.load(f)[0]
    r, seen, written = random.Random(7), set(), 0
    with open(a.out, "w") as out:
        while written < a.bytes:
            turns = []
            for _ in range(r.choice(PARTS)):
                source = r.choices(list(SOURCES), list(SOURCES.values()))[0]
                turns += [(role, tok.decode(text.tolist()).strip()) for role, text in r.choice(docs[source])]
            texts = tuple(text for _, text in turns)
            if not all(texts) or sum(map(len, texts)) > LONGEST or texts in seen:
                continue
            roles = [role for role, _ in turns]
            if roles != ["user", "assistant"] * (len(turns) // 2):
                continue
            seen.add(texts)
            messages = [dict(role=role, content=text) for role, text in turns]
            line = json.dumps(dict(messages=messages), ensure_ascii=False) + "\n"
            written += len(line.encode())
            out.write(line)


if __name__ == "__main__":
    main()
