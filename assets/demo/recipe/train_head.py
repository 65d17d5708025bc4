"""Trains the draft head for a given time, on the target's answers and on corpus text.

At first the head reads the target's true features. Then it is trained as it is used: in further steps it reads its own
outputs in place of the features, and sees the true past only up to where drafting began. Every block's output counts
(the head may be cut after any block), and the step's feedback comes from a depth drawn at random.
"""
import argparse
import os
import pickle
import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from data import Data, mixture
from model import HEAD_BLOCKS, Head, Target
from muon import Muon
from train_target import Clock

LENGTH = 512
MATRIX_LR, NORM_LR = 0.02, 0.003
CE_WEIGHT = 1.0            # beside SmoothL1 of the features
FEEDBACK_STEPS = 2
DEPTHS = [1, 1, 2, 3, 4, 4]


def answer_rows(chats, seed):
    """Endless rows of LENGTH + 2 token ids, with a mark on the target's own tokens."""
    r, ids, marks = random.Random(seed), [], []
    while True:
        for i, m in r.sample(chats, len(chats)):
            ids += i.tolist()
            marks += m.tolist()
            while len(ids) >= LENGTH + 2:
                yield np.array(ids[:LENGTH + 2]), np.array(marks[:LENGTH + 2])
                ids, marks = ids[LENGTH:], marks[LENGTH:]


def corpus_rows(data, seed):
    """The same from the corpus: the mark is on the assistant's tokens."""
    for ids, weights in data.rows(seed, LENGTH + 1):
        yield ids, np.concatenate([[0], weights > 0]).astype(np.int64)


def attend(block, x, cos, sin, past, step):
    """One block at a feedback step. A row at i sees step 0 up to i - step, then one row of each later step.

    past: (keys, values) of the earlier steps. Returns the output and past with this step's keys and values.
    """
    a = block.self_attn
    q, k, v = a.qkv(block.normed(x), cos, sin)
    past = past + [(k, v)]
    share = lambda t: t.repeat_interleave(a.c.n_head // a.c.n_kv, 1)
    scale, n = q.shape[-1] ** -0.5, x.shape[1]
    i = torch.arange(n)
    scores = [(q @ share(past[0][0]).mT * scale).masked_fill(i[None] > i[:, None] - step, -1e4)]
    values = []
    for t in range(1, step + 1):
        key, value = (F.pad(share(y), (0, 0, step - t, 0))[:, :, :n] for y in past[t])
        scores.append((q * key).sum(-1, keepdim=True) * scale)
        values.append(value)
    p = torch.softmax(torch.cat(scores, -1), -1)
    o = p[..., :n] @ share(past[0][1])
    for t, value in enumerate(values):
        o = o + p[..., n + t:n + t + 1] * value
    x = x + a.o_proj(o.transpose(1, 2).flatten(2))
    return x + block.mlp(block.post_attention_layernorm(x)), past


def exit_loss(u, lm, truth, logp, mask):
    """SmoothL1 to the true features, cross-entropy with the target's distribution, and the share of right first choices."""
    count = mask.sum() + 1e-5
    q = F.log_softmax(F.linear(u, lm), -1)
    l1 = (F.smooth_l1_loss(u, truth, reduction="none").mean(-1) * mask).sum() / count
    ce = -((logp.exp() * q).sum(-1) * mask).sum() / count
    return l1, ce, ((q.argmax(-1) == logp.argmax(-1)).float() * mask).sum().detach() / count


def loss_of(head, target, x, marks, depth, steps, attend=attend, exit_loss=exit_loss):
    """x, marks: [B, LENGTH + 2]. Returns the loss, and the share of right first choices after block `depth` by step."""
    n, lm = LENGTH, target.embed_tokens.weight
    with torch.no_grad():
        f = target(x[:, :n + 1])
        truth, logp = f[:, 1:].contiguous(), F.log_softmax(target.head(f[:, 1:]), -1)
    e, marks = F.embedding(x[:, 1:n + 1], lm), marks.float()
    cos, sin = head.cos[:n], head.sin[:n]
    feature, past, total, right = f[:, :n], [[] for _ in range(depth)], 0, []
    for step in range(steps + 1):
        if step:
            feature = torch.cat([feature[:, :1], u[:, :-1]], 1)       # the estimate of f_i that row i - 1 made
        # The predicted token x_{i+2} and the token where drafting began are the target's own.
        mask = marks[:, 2:] * F.pad(marks[:, 1:n + 1], (step, 0))[:, :n]
        u = head.fuse(feature, e)
        for b, block in enumerate(head.layers[:depth]):
            u, past[b] = attend(block, u, cos, sin, past[b], step)
            last = b == depth - 1
            if step == 0 or last:
                l1, ce, share = exit_loss(u, lm, truth, logp, mask)
                total = total + (1.0 if last else 0.5) * 0.8 ** step * (l1 + CE_WEIGHT * ce)
                if last:
                    right.append(share)
                    if step == 0:
                        parts = [l1.detach(), ce.detach()]
    return total, torch.stack(right + parts)


def stack(rows):
    rows = list(rows)
    return torch.from_numpy(np.stack([x for x, _ in rows])), torch.from_numpy(np.stack([m for _, m in rows]))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("work", help="folder with tokenizer.json, data.pkl, target.pt, answers.pkl; the checkpoint goes to WORK/head/head.pt")
    p.add_argument("--minutes", type=float, default=40)
    p.add_argument("--rows", type=int, default=6)
    p.add_argument("--true-features", type=float, default=0.25, help="fraction of the time on true features only")
    p.add_argument("--answers", type=float, default=0.2, help="fraction of rows from the target's own answers")
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    folder = os.path.join(a.work, "head")
    os.makedirs(folder, exist_ok=True)
    tok = Tokenizer.from_file(os.path.join(a.work, "tokenizer.json"))
    target = Target()
    target.load_state_dict(torch.load(os.path.join(a.work, "target.pt"), weights_only=False)["model"])
    target.requires_grad_(False)
    # The published weights are bfloat16: the head learns their features.
    for q in target.parameters():
        q.copy_(q.to(torch.bfloat16))
    head = Head()
    matrices, norms = [q for q in head.parameters() if q.ndim == 2], [q for q in head.parameters() if q.ndim == 1]
    muon, adam = Muon(matrices, lr=MATRIX_LR), torch.optim.AdamW(norms, lr=NORM_LR, betas=(0.9, 0.97), weight_decay=0)
    path, step = os.path.join(folder, "head.pt"), 0
    if os.path.exists(path):
        s = torch.load(path, weights_only=False)
        step = s["step"]
        for part, name in ((head, "model"), (muon, "muon"), (adam, "adam")):
            part.load_state_dict(s[name])
    with open(os.path.join(a.work, "answers.pkl"), "rb") as f:
        chats = pickle.load(f)
    random.Random(0).shuffle(chats)
    held, chats = chats[:len(chats) // 50], chats[len(chats) // 50:]
    print(f"{len(chats)} conversations, {sum(int(m.sum()) for _, m in chats)} tokens by the target", flush=True)
    data = Data(os.path.join(a.work, "data.pkl"), tok)
    data.mix(mixture(0.9))
    data.join, data.most_turns = 0.75, 30
    r = random.Random(step)
    own, corpus, check = answer_rows(chats, step), corpus_rows(data, step), answer_rows(held, 0)
    held_x, held_m = stack(next(check) for _ in range(8))
    fast = dict(attend=torch.compile(attend, dynamic=False), exit_loss=torch.compile(exit_loss, dynamic=False))

    def save():
        torch.save(dict(model=head.state_dict(), muon=muon.state_dict(), adam=adam.state_dict(), step=step), path + ".tmp")
        os.replace(path + ".tmp", path)

    @torch.no_grad()
    def report():
        for depth in (1, 2, HEAD_BLOCKS):
            s = [round(v, 3) for v in loss_of(head, target, held_x, held_m, depth, 3)[1].tolist()]
            print(f"held out, {depth} blocks: first choice right by step {s[:4]}, SmoothL1 {s[4]}, cross-entropy {s[5]}", flush=True)

    clock, saved = Clock(folder, a.minutes), time.time()
    while (t := clock.passed()) < 1:
        depth, steps = (HEAD_BLOCKS, 0) if t < a.true_features else (r.choice(DEPTHS), FEEDBACK_STEPS)
        rate = min(1, (step + 1) / 60) * (1 if t < 0.3 else max(0.02, (1 - t) / 0.7))
        for g in muon.param_groups:
            g["lr"] = MATRIX_LR * rate
        for g in adam.param_groups:
            g["lr"] = NORM_LR * rate
        x, m = stack(next(own if r.random() < a.answers else corpus) for _ in range(a.rows))
        value, stats = loss_of(head, target, x, m, depth, steps, **fast)
        value.backward()
        torch.nn.utils.clip_grad_norm_(norms, 1.0)
        muon.step()
        adam.step()
        head.zero_grad(set_to_none=True)
        step += 1
        if step % 20 == 0:
            print(f"{time.strftime('%H:%M:%S')} step {step} passed {t:.3f} depth {depth} loss {value.item():.3f} right "
                  f"{[round(v, 3) for v in stats[:steps + 1].tolist()]}", flush=True)
        if time.time() - saved > 240:
            save()
            report()
            saved = time.time()
    save()
    report()


if __name__ == "__main__":
    main()
