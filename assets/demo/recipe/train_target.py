"""Trains the target for a given time. Stop it at will: started again with the same arguments it goes on from the checkpoint.

The base stage learns on short windows. The long stage goes on at a lower rate, on longer conversations in longer windows,
so that a chat of many turns holds.
"""
import argparse
import os
import time

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from data import ASSISTANT, BEGIN, END, USER, Data, mixture
from model import Target
from muon import Muon

# rows and tokens a step, learning rate relative to the rates below, fraction of the time before the rate falls,
# chance that a conversation goes on, most messages joined
STAGES = {"base": (16, 256, 1.0, 0.25, 0.55, 14), "long": (4, 1024, 0.25, 0.0, 0.88, 48)}
CHECK_LENGTH = 256
MATRIX_LR, OTHER_LR = 0.02, 0.004
HELD_OUT = {
    "small talk": ["ms_chitchat_caring", "ms_chitchat_friendly", "ms_chitchat_professional"],
    "definitions": ["oewn_qa", "wordset_define"],
    "dialogues": ["self_dialogue", "synthetic_persona_chat"],
    "identity": ["synthetic_identity"],
    "own stories": ["own_story"],
    "own chats": ["own_chat"],
}
QUESTIONS = ["Hello!", "Who are you?", "Tell me a story about a fox.", "What is a river?", "I am sad today."]


class Clock:
    """The fraction of the budget that has passed; the budget starts once and outlives a restart."""

    def __init__(self, folder, minutes, name="started"):
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            with open(path, "w") as f:
                f.write(str(time.time()))
        self.start, self.length = float(open(path).read()), minutes * 60

    def passed(self):
        return min(1.0, (time.time() - self.start) / self.length)


def stack(rows):
    rows = list(rows)
    return torch.from_numpy(np.stack([x for x, _ in rows])), torch.from_numpy(np.stack([w for _, w in rows]))


def loss_of(model, x, w):
    f = model(x[:, :-1])
    loss = F.cross_entropy(model.head(f.flatten(0, 1)), x[:, 1:].reshape(-1), reduction="none")
    return (loss * w.reshape(-1)).sum() / w.sum()


@torch.no_grad()
def held_out_losses(model, data):
    result = {}
    for name, sources in HELD_OUT.items():
        data.mix({s: 1 for s in sources})
        rows = data.rows(5, CHECK_LENGTH)
        result[name] = round(loss_of(model, *stack(next(rows) for _ in range(8))).item(), 3)
    return result


@torch.no_grad()
def answer(model, tok, question, limit=120):
    ids = [BEGIN, USER] + tok.encode(question, add_special_tokens=False).ids + [END, ASSISTANT]
    start = len(ids)
    while len(ids) < start + limit:
        t = model.head(model(torch.tensor([ids]))[0, -1]).argmax().item()
        if t == END:
            break
        ids.append(t)
    return tok.decode(ids[start:])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("work", help="folder with tokenizer.json and data.pkl; the checkpoint goes to WORK/target.pt")
    p.add_argument("--stage", choices=STAGES, default="base")
    p.add_argument("--minutes", type=float, default=70)
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    tok = Tokenizer.from_file(os.path.join(a.work, "tokenizer.json"))
    data_path = os.path.join(a.work, "data.pkl")
    data, held = Data(data_path, tok), Data(data_path, tok, held_out=True)
    n_rows, length, peak, hold, data.join, data.most_turns = STAGES[a.stage]
    model = Target()
    embedding, matrices, vectors = [model.embed_tokens.weight], [], []
    for name, q in model.named_parameters():
        if "embed" not in name:
            (matrices if q.ndim == 2 else vectors).append(q)
    muon = Muon(matrices, lr=MATRIX_LR)
    adam = torch.optim.AdamW(embedding + vectors, lr=OTHER_LR, betas=(0.9, 0.97), weight_decay=0)
    path, step = os.path.join(a.work, "target.pt"), 0
    if os.path.exists(path):
        s = torch.load(path, weights_only=False)
        step = s["step"]
        for part, name in ((model, "model"), (muon, "muon"), (adam, "adam")):
            part.load_state_dict(s[name])

    def save():
        torch.save(dict(model=model.state_dict(), muon=muon.state_dict(), adam=adam.state_dict(), step=step), path + ".tmp")
        os.replace(path + ".tmp", path)

    def report():
        print("held out", held_out_losses(model, held), flush=True)
        for q in QUESTIONS:
            print("   ", q, "->", repr(answer(model, tok, q)), flush=True)

    compiled = torch.compile(lambda x, w: loss_of(model, x, w))
    clock, part, saved = Clock(a.work, a.minutes, "started-" + a.stage), None, time.time()
    while (t := clock.passed()) < 1:
        if int(t * 25) != part:                      # the mixture moves in 25 parts
            part = int(t * 25)
            data.mix(mixture(t if a.stage == "base" else 1))
            streams = [data.rows((step + 1) * 1000 + i, length) for i in range(n_rows)]
        data.user_weight = 0.3 if t < 0.6 and a.stage == "base" else 0.05  # the user's words teach English early on
        rate = peak * min(1, (step + 1) / 60) * (1 if t < hold else max(0.02, (1 - t) / (1 - hold)))
        for g in muon.param_groups:
            g.update(lr=MATRIX_LR * rate, momentum=min(0.95, 0.85 + 0.1 * step / 200))
        for g in adam.param_groups:
            g["lr"] = OTHER_LR * rate
        loss = compiled(*stack(next(s) for s in streams))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(embedding + vectors, 1.0)
        muon.step()
        adam.step()
        model.zero_grad(set_to_none=True)
        step += 1
        if step % 25 == 0:
            print(f"{time.strftime('%H:%M:%S')} step {step} passed {t:.3f} loss {loss.item():.3f} tokens {step * n_rows * length}", flush=True)
        if time.time() - saved > 240:
            save()
            report()
            saved = time.time()
    save()
    report()


if __name__ == "__main__":
    main()
