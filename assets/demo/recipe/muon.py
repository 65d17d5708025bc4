"""Muon: momentum, then an orthogonalised update; the matrices of one shape are stacked."""
import torch

POLYNOMIALS = [
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
]


@torch.no_grad()
def orthogonalise(x):
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) * 1.02 + 1e-7)
    for a, b, c in POLYNOMIALS:
        s = x @ x.mT
        x = a * x + (b * s + c * (s @ s)) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum=0.95, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            by_shape = {}
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "m" not in state:
                    state["m"] = torch.zeros_like(p)
                state["m"].lerp_(p.grad, 1 - group["momentum"])
                by_shape.setdefault(tuple(p.shape), []).append((p, p.grad.lerp(state["m"], group["momentum"])))
            for shape, items in by_shape.items():
                updates = orthogonalise(torch.stack([u for _, u in items]))
                scale = max(1, shape[0] / shape[1]) ** 0.5
                for (p, _), u in zip(items, updates):
                    p.mul_(1 - group["lr"] * group["weight_decay"]).add_(u, alpha=-group["lr"] * scale)
