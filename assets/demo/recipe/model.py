"""The target (a small Llama) and the DGF draft head, in plain PyTorch."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab: int = 4096
    hidden: int = 256
    inter: int = 768
    n_layer: int = 6
    n_head: int = 4
    n_kv: int = 2
    max_pos: int = 2048
    theta: float = 10000.0
    eps: float = 1e-5


HEAD_BLOCKS = 4


def rope_table(c):
    d = c.hidden // c.n_head
    inv = 1.0 / (c.theta ** (torch.arange(0, d, 2).float() / d))
    angle = torch.outer(torch.arange(c.max_pos).float(), inv)
    angle = torch.cat([angle, angle], -1)
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    h = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., h:], x[..., :h]], -1) * sin


class RMSNorm(nn.Module):
    def __init__(self, n, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
        self.eps = eps

    def forward(self, x):
        y = x.float()
        return y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, d = c, c.hidden // c.n_head
        self.q_proj = nn.Linear(c.hidden, c.hidden, bias=False)
        self.k_proj = nn.Linear(c.hidden, c.n_kv * d, bias=False)
        self.v_proj = nn.Linear(c.hidden, c.n_kv * d, bias=False)
        self.o_proj = nn.Linear(c.hidden, c.hidden, bias=False)

    def qkv(self, x, cos, sin):
        c, (b, t, _) = self.c, x.shape
        d = c.hidden // c.n_head
        q = self.q_proj(x).view(b, t, c.n_head, d).transpose(1, 2)
        k = self.k_proj(x).view(b, t, c.n_kv, d).transpose(1, 2)
        v = self.v_proj(x).view(b, t, c.n_kv, d).transpose(1, 2)
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def forward(self, x, cos, sin, mask=None, cache=None):
        """mask: True where a row may look; None is causal without a past. cache: [] or [keys, values], changed in place."""
        q, k, v = self.qkv(x, cos, sin)
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
            cache[:] = [k, v]
        r = self.c.n_head // self.c.n_kv
        o = F.scaled_dot_product_attention(q, k.repeat_interleave(r, 1), v.repeat_interleave(r, 1), attn_mask=mask, is_causal=mask is None)
        b, h, t, d = o.shape
        return self.o_proj(o.transpose(1, 2).reshape(b, t, h * d))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden, c.inter, bias=False)
        self.up_proj = nn.Linear(c.hidden, c.inter, bias=False)
        self.down_proj = nn.Linear(c.inter, c.hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, c, input_norm=True):
        super().__init__()
        self.input_norm = input_norm
        if input_norm:
            self.input_layernorm = RMSNorm(c.hidden, c.eps)
        self.self_attn = Attention(c)
        self.post_attention_layernorm = RMSNorm(c.hidden, c.eps)
        self.mlp = MLP(c)

    def normed(self, x):
        return self.input_layernorm(x) if self.input_norm else x

    def forward(self, x, cos, sin, mask=None, cache=None):
        x = x + self.self_attn(self.normed(x), cos, sin, mask, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


def start_blocks(blocks):
    """Small normal weights; the two matrices that write to the residual stream start at zero."""
    for name, p in blocks.named_parameters():
        if p.ndim == 2:
            nn.init.normal_(p, 0, 0.5 / p.shape[1] ** 0.5)
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            nn.init.zeros_(p)


class Target(nn.Module):
    """Embeddings are tied: the LM head is the embedding matrix."""

    def __init__(self, c=None):
        super().__init__()
        self.c = c = c or Config()
        self.embed_tokens = nn.Embedding(c.vocab, c.hidden)
        self.layers = nn.ModuleList([Block(c) for _ in range(c.n_layer)])
        self.norm = RMSNorm(c.hidden, c.eps)
        cos, sin = rope_table(c)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        nn.init.normal_(self.embed_tokens.weight, 0, 0.02)
        start_blocks(self.layers)

    def forward(self, ids, pos=None, mask=None, caches=None):
        """The features: the output of the final norm, which the LM head reads."""
        x = self.embed_tokens(ids)
        at = slice(0, ids.shape[1]) if pos is None else pos
        cos, sin = self.cos[at], self.sin[at]
        if cos.ndim == 3:                       # one row of positions per sequence
            cos, sin = cos[:, None], sin[:, None]
        for i, layer in enumerate(self.layers):
            x = layer(x, cos, sin, mask, None if caches is None else caches[i])
        return self.norm(x)

    def head(self, f):
        return F.linear(f, self.embed_tokens.weight)


class Head(nn.Module):
    """The DGF draft head. The pair (f_i, x_{i+1}) at RoPE position i gives g_{i+1}, an estimate of f_{i+1}.

    W_* are stored [in, out] and used as x @ W. Block 0 has no input norm and there is no final norm. Every
    block's output is trained to be a usable g, so the head may be cut after any block.
    """

    def __init__(self, c=None):
        super().__init__()
        self.c = c = c or Config(n_layer=HEAD_BLOCKS)
        h = c.hidden
        self.W_1 = nn.Parameter(torch.empty(h, h))
        self.W_2 = nn.Parameter(torch.empty(h, h))
        self.W_z = nn.Parameter(torch.empty(2 * h, h))
        for w in (self.W_1, self.W_2, self.W_z):
            nn.init.xavier_uniform_(w)
        self.input_layernorm = RMSNorm(h, c.eps)
        self.layers = nn.ModuleList([Block(c, input_norm=i > 0) for i in range(c.n_layer)])
        cos, sin = rope_table(c)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        start_blocks(self.layers)

    def fuse(self, f, e):
        h1 = f @ self.W_1
        h2 = F.silu(self.input_layernorm(e) @ self.W_2)
        z = torch.sigmoid(torch.cat([h1, h2], -1) @ self.W_z)
        return z * h1 + (1 - z) * h2

    def forward(self, f, e, pos=None, mask=None, caches=None, depth=None):
        """f, e: [batch, rows, hidden]. Returns the residual stream after every block up to depth."""
        u = self.fuse(f, e)
        at = slice(0, f.shape[1]) if pos is None else pos
        outs = []
        for i, block in enumerate(self.layers[:depth]):
            u = block(u, self.cos[at], self.sin[at], mask, None if caches is None else caches[i])
            outs.append(u)
        return outs
