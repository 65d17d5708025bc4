"""The target's own answers to prompts of the training split, for the head to learn from.

Writes WORK/answers.pkl: for every conversation its token ids, and a mark on every token that the target wrote.
"""
import argparse
import os
import pickle
import random
import time

import numpy as np
import torch
from tokenizers import Tokenizer

from data import ASSISTANT, BEGIN, END, PAD, SHORT, SYSTEM, USER, Data, mixture
from model import Target

BATCH, ANSWER, CONTEXT = 256, 230, 500


@torch.no_grad()
def replies(model, contexts, limit, temperatures):
    """Continues every id list by at most limit tokens, END included; temperature 0 is greedy."""
    width = max(map(len, contexts))
    pad = torch.tensor([width - len(c) for c in contexts])
    x = torch.tensor([[PAD] * (width - len(c)) + c for c in contexts])
    pos = (torch.arange(width)[None] - pad[:, None]).clamp(min=0)
    seen = torch.arange(width)[None] >= pad[:, None]
    mask = seen[:, None] & torch.ones(width, width, dtype=torch.bool).tril()[None] | torch.eye(width, dtype=torch.bool)[None]
    temp, rows, outs = torch.tensor(temperatures), list(range(len(contexts))), [[] for _ in contexts]
    caches = [[] for _ in model.layers]
    logits = model.head(model(x, pos, mask[:, None], caches)[:, -1])
    pos = pos[:, -1:]
    for _ in range(limit):
        noise = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-9, 1 - 1e-7)))
        t = torch.where(temp > 0, (logits / temp[:, None].clamp(min=1e-3) + noise).argmax(-1), logits.argmax(-1))
        for r, v in zip(rows, t.tolist()):
            outs[r].append(v)
        going = (t != END).nonzero()[:, 0]
        if not len(going):
            break
        pos, seen = pos + 1, torch.cat([seen, torch.ones(len(rows), 1, dtype=torch.bool)], 1)
        if len(going) <= 0.75 * len(rows):           # finished rows leave the batch
            for c in caches:
                c[:] = [c[0][going], c[1][going]]
            seen, pos, temp, t = seen[going], pos[going], temp[going], t[going]
            rows = [rows[i] for i in going.tolist()]
        logits = model.head(model(t[:, None], pos, seen[:, None, None], caches)[:, -1])
    return [o[:o.index(END) + 1] if END in o else o for o in outs]


def questions(data, r):
    """The user's turns of a conversation, and a system message or none."""
    while True:
        source, doc = data.pick(r)
        if doc[0][0] == "text":
            continue
        turns = [t.tolist() for role, t in doc if role == "user"][:3]
        while source in SHORT and r.random() < 0.5 and len(turns) < 4:
            more, doc = data.pick(r)
            if more in SHORT:
                turns.append(doc[0][1].tolist())
        if sum(map(len, turns)) < 200:
            return turns, (r.choice(data.system) if r.random() < 0.12 else None)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("work", help="folder with tokenizer.json, data.pkl and target.pt")
    p.add_argument("--minutes", type=float, default=10)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    r = random.Random(a.seed)
    tok = Tokenizer.from_file(os.path.join(a.work, "tokenizer.json"))
    model = Target()
    model.load_state_dict(torch.load(os.path.join(a.work, "target.pt"), weights_only=False)["model"])
    data = Data(os.path.join(a.work, "data.pkl"), tok)
    data.mix(mixture(0.9))
    out, chats, written, start = os.path.join(a.work, "answers.pkl"), [], 0, time.time()
    while time.time() - start < a.minutes * 60:
        asked = [questions(data, r) for _ in range(BATCH)]
        ids = [[BEGIN] + ([SYSTEM] + s + [END] if s else []) for _, s in asked]
        marks = [[0] * len(i) for i in ids]
        temps = [0.0 if r.random() < 0.5 else r.uniform(0.6, 1.0) for _ in asked]
        for turn in range(4):
            going = [i for i in range(BATCH) if turn < len(asked[i][0]) and len(ids[i]) < CONTEXT and ids[i][-1] in (END, BEGIN)]
            if not going:
                break
            for i in going:
                q = [USER] + asked[i][0][turn] + [END, ASSISTANT]
                ids[i] += q
                marks[i] += [0] * len(q)
            for i, o in zip(going, replies(model, [ids[i] for i in going], ANSWER, [temps[i] for i in going])):
                ids[i] += o
                marks[i] += [1] * len(o)
                written += len(o)
        chats += [(np.array(i, dtype=np.int16), np.array(m, dtype=np.int8)) for i, m in zip(ids, marks)]
        with open(out + ".tmp", "wb") as f:
            pickle.dump(chats, f)
        os.replace(out + ".tmp", out)
        print(f"{time.strftime('%H:%M:%S')} {len(chats)} conversations, {written} tokens by the target", flush=True)


if __name__ == "__main__":
    main()
