"""Which modules of a model are its layers; for describe.py alone."""
from torch import nn

LISTS = (nn.ModuleList, nn.Sequential)


def has(module, test):
    return any(test(m) for m in module.modules())


def is_norm(module):
    return "norm" in type(module).__name__.lower()


def is_product(module):
    return any(p.ndim > 1 for p in module.parameters(recurse=False)) and not is_norm(module)


def is_layer(module):
    """It has a norm and something that multiplies, as an expert or one matrix does not."""
    return has(module, is_norm) and has(module, is_product)


def layers_in(module):
    """Lists of layers below a module: pairs of names and modules."""
    return [(name, m) for name, m in module.named_modules()
            if isinstance(m, LISTS) and len(m) and all(is_layer(child) for child in m.children())]


def holds_layers(element):
    """A stage of an image model: an element that has a list of several layers of one class."""
    return any(len({type(child) for child in m.children()}) == 1 and len(m) > 1
               for _, m in layers_in(element))


def is_stages(module):
    return any(holds_layers(child) for child in module.children())


def children_that_multiply(name, module):
    """Of a model without lists of layers, in the first module that has several children."""
    children = [(f"{name}.{child}" if name else child, inner)
                for child, inner in module.named_children() if has(inner, is_product)]
    return children_that_multiply(*children[0]) or [children[0][0]] if len(children) == 1 else \
        [child for child, _ in children]


def find(model):
    """Names of the modules that are layers: children of lists, and no part of other layers."""
    found = []

    def search(name, module):
        is_list = isinstance(module, LISTS) and len(module) and \
            all(is_layer(child) for child in module.children())
        if is_list and not is_stages(module):
            found.extend(f"{name}.{child}" if name else child
                         for child, _ in module.named_children())
            return
        for child, inner in module.named_children():
            search(f"{name}.{child}" if name else child, inner)

    search("", model)
    return found or children_that_multiply("", model)
