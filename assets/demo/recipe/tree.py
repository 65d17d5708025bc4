"""Greedy speculative decoding with EAGLE-2's dynamic draft tree, one sequence at a time."""
import torch


def causal(rows, past=0):
    return torch.ones(rows, past + rows, dtype=torch.bool).tril(past)


@torch.no_grad()
def draft_tree(head, target, g, root, stable, n, blocks, width, depth, nodes):
    """g: the head's last output on true features; stable: its cache, left as it is. Returns tokens and parents."""
    score, token = torch.log_softmax(target.head(g), -1).topk(width)
    tokens, parents, scores = token.tolist(), [-1] * width, score.tolist()    # by candidate; parent -1 is the root
    beam, hidden = list(range(width)), g[None].expand(width, -1)
    past, caches, rows = stable[0][0].shape[2], [list(c) for c in stable], []
    for step in range(depth):
        mask = torch.zeros(len(beam), past + len(rows) + len(beam), dtype=torch.bool)
        mask[:, :past] = True
        slot = {c: past + i for i, c in enumerate(rows + beam)}
        for r, c in enumerate(beam):
            while c != -1:
                mask[r, slot[c]] = True
                c = parents[c]
        e = target.embed_tokens(torch.tensor([tokens[c] for c in beam]))
        out = head(hidden[None], e[None], torch.full((len(beam),), n + step), mask, caches, blocks)[-1][0]
        rows += beam
        score, token = torch.log_softmax(target.head(out), -1).topk(width)
        score = score + torch.tensor([scores[c] for c in beam])[:, None]
        first = len(tokens)
        for r, c in enumerate(beam):
            tokens += token[r].tolist()
            scores += score[r].tolist()
            parents += [c] * width
        best = score.flatten().topk(width)[1]
        hidden, beam = out[best // width], [first + i for i in best.tolist()]
    chosen = sorted(sorted(range(len(tokens)), key=lambda c: (-scores[c], c))[:nodes - 1])
    index = {-1: 0} | {c: i + 1 for i, c in enumerate(chosen)}
    return [root] + [tokens[c] for c in chosen], [-1] + [index[parents[c]] for c in chosen]


@torch.no_grad()
def speculate(target, head, ids, blocks, limit, end, width=10, depth=7, nodes=16):
    """New tokens, and for every target forward after the prefill how many drafted tokens were accepted."""
    kv, stable = [[] for _ in target.layers], [[] for _ in head.layers[:blocks]]
    features = target(torch.tensor([ids]), caches=kv)[0]
    root = target.head(features[-1]).argmax().item()
    new, accepted, fresh, n = [root], [], ids[1:] + [root], len(ids)
    while end not in new and len(new) < limit:
        past = n - len(fresh)
        e = target.embed_tokens(torch.tensor([fresh]))
        g = head(features[None], e, torch.arange(past, n), causal(len(fresh), past), stable, blocks)[-1][0, -1]
        tokens, parents = draft_tree(head, target, g, root, stable, n, blocks, width, depth, nodes)
        level, mask = [0] * len(tokens), torch.zeros(len(tokens), n + len(tokens), dtype=torch.bool)
        mask[:, :n] = True
        for i, p in enumerate(parents):
            if i:
                level[i] = level[p] + 1
                mask[i, n:] = mask[p, n:]
            mask[i, n + i] = True
        features = target(torch.tensor([tokens]), n + torch.tensor(level), mask, kv)[0]
        says, walk = target.head(features).argmax(-1).tolist(), [0]
        while True:
            child = [i for i, p in enumerate(parents) if p == walk[-1] and tokens[i] == says[walk[-1]]]
            if not child:
                break
            walk.append(child[0])
        keep = torch.tensor(list(range(n)) + [n + i for i in walk])
        for c in kv:
            c[:] = [c[0][:, :, keep], c[1][:, :, keep]]
        root = says[walk[-1]]
        features, fresh, n = features[walk], [tokens[i] for i in walk[1:]] + [root], n + len(walk)
        new += fresh
        accepted.append(len(walk) - 1)
    return new, accepted


@torch.no_grad()
def plain(target, ids, limit, end):
    """Ordinary greedy decoding."""
    kv, new, x, past = [[] for _ in target.layers], [], ids, 0
    while len(new) < limit and end not in new:
        f = target(torch.tensor([x]), torch.arange(past, past + len(x)), causal(len(x), past), kv)[0]
        past += len(x)
        x = [target.head(f[-1]).argmax().item()]
        new += x
    return new
