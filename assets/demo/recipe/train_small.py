"""Trains the small language model that drafts for strategies without a head. It learns the target's distribution.

The rows are those of the head's training: corpus text and the target's own answers. The loss is the cross-entropy with the
target's soft labels on the assistant's words. Stop it at will: started again it goes on from the checkpoint.
"""
import argparse
import os
import pickle
import random
import time

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from data import Data, mixture
from model import Config, Target
from muon import Muon
from train_head import LENGTH, answer_rows, corpus_rows, stack

SMALL = dict(hidden=128, inter=384, n_layer=2, n_head=2, n_kv=1)
MATRIX_LR, OTHER_LR = 0.02, 0.004
WARM_UP, HOLD = 40, 0.3            # steps; share of the steps before the rate falls


def start(model, target):
    """The embedding starts as the target's, in the directions in which it varies most."""
    e = target.embed_tokens.weight
    _, _, v = torch.linalg.svd(e, full_matrices=False)
    with torch.no_grad():
        model.embed_tokens.weight.copy_(e @ v[:model.c.hidden].T)


def loss_of(model, x, marks, truth):
    """x, marks: [B, n + 1] and truth, the target's features: [B, n, hidden]. Loss, and the share of equal first choices."""
    features, lm = truth
    mask = marks[:, 1:].float().reshape(-1)
    count = mask.sum() + 1e-5
    p = F.softmax(F.linear(features.flatten(0, 1), lm), -1)
    q = F.log_softmax(model.head(model(x[:, :-1]).flatten(0, 1)), -1)
    ce = -((p * q).sum(-1) * mask).sum() / count
    return ce, ((p.argmax(-1) == q.argmax(-1)).float() * mask).sum().detach() / count


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("work", help="folder with tokenizer.json, data.pkl, target.pt, answers.pkl; the checkpoint goes to WORK/small.pt")
    p.add_argument("--steps", type=int, default=1500)
    p.add_argument("--rows", type=int, default=8)
    p.add_argument("--answers", type=float, default=0.25, help="fraction of rows from the target's own answers")
    p.add_argument("--threads", type=int, default=1)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(2)
    tok = Tokenizer.from_file(os.path.join(a.work, "tokenizer.json"))
    target = Target()
    target.load_state_dict(torch.load(os.path.join(a.work, "target.pt"), weights_only=False)["model"])
    target.requires_grad_(False)
    for q in target.parameters():                # the published weights are bfloat16
        q.copy_(q.to(torch.bfloat16))
    model = Target(Config(**SMALL))
    start(model, target)
    embedding, matrices, vectors = [model.embed_tokens.weight], [], []
    for name, q in model.named_parameters():
        if "embed" not in name:
            (matrices if q.ndim == 2 else vectors).append(q)
    muon = Muon(matrices, lr=MATRIX_LR)
    adam = torch.optim.AdamW(embedding + vectors, lr=OTHER_LR, betas=(0.9, 0.97), weight_decay=0)
    path, step = os.path.join(a.work, "small.pt"), 0
    if os.path.exists(path):
        s = torch.load(path, weights_only=False)
        step = s["step"]
        for part, name in ((model, "model"), (muon, "muon"), (adam, "adam")):
            part.load_state_dict(s[name])
    with open(os.path.join(a.work, "answers.pkl"), "rb") as f:
        chats = pickle.load(f)
    random.Random(0).shuffle(chats)
    held, chats = chats[:len(chats) // 50], chats[len(chats) // 50:]
    data, other = (Data(os.path.join(a.work, "data.pkl"), tok, held_out=h) for h in (False, True))
    for d in (data, other):
        d.mix(mixture(0.9))
        d.join, d.most_turns = 0.75, 30
    r = random.Random(step)
    own, corpus = answer_rows(chats, step), corpus_rows(data, step)
    check = {"answers": answer_rows(held, 0), "corpus": corpus_rows(other, 0)}
    check = {name: stack(next(rows) for _ in range(8)) for name, rows in check.items()}

    @torch.no_grad()
    def truth(x):
        with torch.autocast("cpu", torch.bfloat16):
            return target(x[:, :-1]).float(), target.embed_tokens.weight

    compiled = torch.compile(loss_of)

    def save():
        torch.save(dict(model=model.state_dict(), muon=muon.state_dict(), adam=adam.state_dict(), step=step), path + ".tmp")
        os.replace(path + ".tmp", path)

    @torch.no_grad()
    def report():
        for name, (x, m) in check.items():
            ce, same = loss_of(model, x, m, truth(x))
            labels = truth(x)
            least = F.linear(labels[0], labels[1]).log_softmax(-1)
            entropy = (-(least.exp() * least).sum(-1) * m[:, 1:]).sum() / m[:, 1:].sum()
            print(f"held-out {name}: cross-entropy {ce.item():.3f} (entropy of the target {entropy.item():.3f}), "
                  f"first choice the target's {same.item():.3f}", flush=True)

    while step < a.steps:
        t = step / a.steps
        rate = min(1, (step + 1) / WARM_UP) * (1 if t < HOLD else max(0.02, (1 - t) / (1 - HOLD)))
        for g in muon.param_groups:
            g.update(lr=MATRIX_LR * rate, momentum=min(0.95, 0.85 + 0.1 * step / 200))
        for g in adam.param_groups:
            g["lr"] = OTHER_LR * rate
        x, m = stack(next(own if r.random() < a.answers else corpus) for _ in range(a.rows))
        ce, same = compiled(model, x, m, truth(x))
        ce.backward()
        torch.nn.utils.clip_grad_norm_(embedding + vectors, 1.0)
        muon.step()
        adam.step()
        model.zero_grad(set_to_none=True)
        step += 1
        if step % 20 == 0:
            print(f"{time.strftime('%H:%M:%S')} step {step} of {a.steps} cross-entropy {ce.item():.3f} same {same.item():.3f} "
                  f"tokens {step * a.rows * LENGTH}", flush=True)
        if step % 100 == 0:
            save()
            report()
    save()
    report()


if __name__ == "__main__":
    main()
