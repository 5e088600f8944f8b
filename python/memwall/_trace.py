"""What a torch module computes in one forward pass, operator by operator; for describe.py alone.

Modules run on the meta device, whose tensors have shapes and no memory.  A dispatch mode sees each
operator that PyTorch executes, below nn.Linear, einsum and the like, so no class has to be known.
Which parameter an operator takes is followed through views, casts and products of parameters.
"""
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

aten = torch.ops.aten

ACTIVATIONS = {"gelu", "silu", "relu", "tanh", "sigmoid", "elu", "leaky_relu", "hardtanh", "mish",
               "hardswish", "softplus", "relu6", "log_sigmoid_forward", "hardsigmoid", "_prelu_kernel"}
GATHERS = {"index", "index_select", "gather"}
NORMS = ("norm",)


class Weight:
    """A tensor that is made of parameters alone: `names` of them; `chosen`: rows of it that tokens
    chose, as those of experts."""

    def __init__(self, names, chosen=False):
        self.names, self.chosen = names, chosen


def merge(rows, row):
    """Adds a row to those of one visit: the same operator again has more rows, or comes more often.
    """
    key = tuple((name, row[name]) for name in row if name not in ("rows", "count_", "visit"))
    old = rows.get(key)
    if old is None:
        rows[key] = row
    elif "rows" in row:
        old["rows"] += row["rows"]
    else:
        old["count_"] += row["count_"]


class Trace(TorchDispatchMode):
    """`blocks`: modules whose calls are visits, and what runs between them is of the model.

    After the run `places` lists, in order, (name of a block's module or None, rows)."""

    def __init__(self, model, blocks):
        super().__init__()
        self.names, self.weights = {}, WeakTensorKeyDictionary()
        self.sizes = {}
        for name, parameter in model.named_parameters(remove_duplicate=True):
            self.names[id(parameter)] = name
            self.sizes[name] = parameter.numel()
        self.scores = WeakTensorKeyDictionary()
        self.blocks, self.path, self.kinds = blocks, [], []
        self.places, self.inside, self.hooks = [(None, {})], 0, []
        self.quiet = 0
        self.skipped_flops = 0
        self.modules = {}
        for name, module in model.named_modules():
            self.modules[name] = module
            self.hooks.append(module.register_forward_pre_hook(self._enter(name, module)))
            self.hooks.append(module.register_forward_hook(self._leave(name), always_call=True))

    def close(self):
        for hook in self.hooks:
            hook.remove()

    # --- modules ------------------------------------------------------------------------------

    def _enter(self, name, module):
        kind = type(module).__name__.lower()

        def enter(_, args):
            if name in self.blocks and not self.inside:
                self.places.append((name, {}))
            self.inside += name in self.blocks
            self.path.append((name, kind))
            first = next((arg for arg in args if isinstance(arg, torch.Tensor)), None)
            if first is not None and first.ndim and "norm" in kind and not list(module.children()):
                width = first.shape[1] if "batch" in kind or "group" in kind and first.ndim > 2 \
                    else first.shape[-1]
                self.add({"kind": "norm", "width": width, "rows": first.numel() // max(1, width)},
                         {name for name, _ in self._own(module)})
        return enter

    def _own(self, module):
        return [(self.names[id(p)], p) for p in module.parameters(recurse=False)
                if id(p) in self.names]

    def _leave(self, name):
        def leave(*_):
            if self.path and self.path[-1][0] == name:
                self.path.pop()
            if name in self.blocks:
                self.inside -= 1
                if not self.inside:
                    self.places.append((None, {}))
        return leave

    # --- rows ---------------------------------------------------------------------------------

    def add(self, row, names=()):
        row["module"] = self.path[-1][0] if self.path else ""
        row["names"] = tuple(sorted(names))
        merge(self.places[-1][1], row)

    def weight_of(self, tensor):
        name = self.names.get(id(tensor))
        return Weight((name,)) if name else self.weights.get(tensor)

    def attention(self, query, key, value, causal, window):
        """One that its caller computes, whose products are not seen here."""
        heads, queries, width = query.shape[-3:]
        self.add({"kind": "attention", "heads": heads, "kv_heads": key.shape[-3],
                  "head_dim": width, "value_dim": value.shape[-1], "queries": queries,
                  "keys": key.shape[-2], "causal": bool(causal), "window": int(window or 0),
                  "count_": query.numel() // (heads * queries * width)})

    def product(self, a, b, batch, m, k, n, more=()):
        """[m, k] by [k, n], `batch` times."""
        left, right = self.weight_of(a), self.weight_of(b)
        if k == 1:  # an outer product sums nothing: it is a pass, as angles of rotary positions
            self.skipped_flops += 2 * batch * m * n
            return None
        if bool(left) == bool(right):
            return self.mix(a, b, batch, m, k, n)
        weight, m, n = (right, m, n) if right else (left, n, m)
        names = set(weight.names) | {name for it in more if it is not None and self.weight_of(it)
                                     for name in self.weight_of(it).names}
        held = max(1, sum(self.sizes[name] for name in weight.names) // (n * k))
        count = held if weight.chosen else min(held, batch)
        self.add({"kind": "product", "n": n, "k": k, "count": count, "rows": batch * m}, names)
        return None

    def mix(self, a, b, batch, m, k, n):
        """A product of two activations: of attention if a softmax comes between it and another."""
        of = self.scores.get(a) or self.scores.get(b)
        if of and of["soft"] and not of.get("paired") and of["row"]["count"] == batch:
            of["paired"] = True
            of["row"]["value_dim"] = n if self.scores.get(a) else m
            return None
        row = {"m": m, "k": k, "n": n, "count": batch, "value_dim": 0}
        self.places[-1][1][("mix", id(row))] = row
        row["module"] = self.path[-1][0] if self.path else ""
        row["kind"], row["names"] = "mix", ()
        return {"row": row, "soft": False}

    # --- operators ----------------------------------------------------------------------------

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not self.quiet:
            self.see(func, args, kwargs or {}, out)
        return out

    def see(self, func, args, kwargs, out):
        name = func._schema.name.split("::")[-1].rstrip("_")
        flat = [a for arg in (*args, *kwargs.values())
                for a in (arg if isinstance(arg, (list, tuple)) else [arg])
                if isinstance(a, torch.Tensor)]
        outs = [o for o in (out if isinstance(out, (list, tuple)) else [out])
                if isinstance(o, torch.Tensor)]
        mixed = None
        if name in ("mm", "addmm", "bmm", "baddbmm"):
            a, b = args[-2:] if name in ("mm", "bmm") else args[1:3]
            batch = a.shape[0] if a.ndim == 3 else 1
            mixed = self.product(a, b, batch, a.shape[-2], a.shape[-1], b.shape[-1],
                                 args[:1] if name.startswith(("addm", "badd")) else ())
            if mixed:
                for o in outs:
                    self.scores[o] = mixed
            return
        if name in ("convolution", "_convolution"):
            self.convolve(args, out)
            return
        if name.startswith("_scaled_dot_product"):
            self.attention(args[0], args[1], args[2], kwargs.get("is_causal", False), 0)
            return
        if name in ("embedding", "_embedding_bag"):
            weight = self.weight_of(args[0])
            if weight:
                self.add({"kind": "embedding", "width": args[0].shape[-1],
                          "table": args[0].shape[0], "rows": args[1].numel()}, weight.names)
            return
        if name in ("_grouped_mm",):
            a, b = args[:2]
            weight = self.weight_of(b)
            if weight:
                self.add({"kind": "product", "n": b.shape[-1], "k": b.shape[-2],
                          "count": b.shape[0], "rows": a.shape[0]}, weight.names)
            return
        self.follow(name, flat, outs, func)

    def convolve(self, args, out):
        x, w, bias = args[:3]
        transposed, groups = args[6], args[8]
        places = 1
        for side in (x if transposed else out).shape[2:]:
            places *= side
        size = w[0, 0].numel()
        if transposed:
            n, k = w.shape[1] * size, w.shape[0] // groups
        else:
            n, k = w.shape[0] // groups, w.shape[1] * size
        names = {name for it in (w, bias) if it is not None and self.weight_of(it)
                 for name in self.weight_of(it).names}
        self.add({"kind": "product", "n": n, "k": k, "count": groups,
                  "rows": out.shape[0] * places * groups, "convolution": True}, names)

    def follow(self, name, flat, outs, func):
        """Weights through views and casts, scores through the softmax, parameters into passes."""
        weights = [self.weight_of(a) for a in flat]
        if flat and weights[0] and name in GATHERS and not all(weights):
            for o in outs:
                self.weights[o] = Weight(weights[0].names, True)
            return
        if flat and all(weights):
            names = tuple(sorted({name for w in weights for name in w.names}))
            for o in outs:
                self.weights[o] = Weight(names, any(w.chosen for w in weights))
            return
        scores = next((self.scores[a] for a in flat if a in self.scores), None)
        if scores and not scores.get("paired"):
            if name in ("_softmax", "softmax", "_safe_softmax"):
                scores["soft"] = True
            for o in outs:
                self.scores[o] = scores
        if name in ACTIVATIONS and outs and outs[0].ndim:
            self.add({"kind": "activation", "width": 1, "rows": outs[0].numel()})
        used = {n for w in weights if w for n in w.names}
        if used and outs and not func.is_view:
            self.add({"kind": "pass", "rows": 0, "width": 0}, used)
