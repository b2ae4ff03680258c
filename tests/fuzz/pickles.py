"""Checkpoints of random opcodes: what is measured is what `torch.load` takes, or they are refused."""

import codecs
import fractions
import random
import struct
import warnings
import zipfile

import torch

from fa_core.errors import FaError
from fa_core.measure.checkpoint import load_checkpoint

STORAGES = 3
NUMBERS = torch.arange(4.0)
NOTHING = b"N"
NO = b"\x89"


def short(number):
    return b"K" + bytes([number])


def text(words):
    return b"X" + struct.pack("<I", len(words)) + words.encode()


def some(*values):
    return b"(" + b"".join(values) + b"t"


def named(module, name):
    return f"c{module}\n{name}\n".encode()


def torchs(name, *args):
    return named("torch._utils", name) + some(*args) + b"R"


def mapping(*pairs):
    return b"}(" + b"".join(pairs) + b"u"


ORDERED = named("collections", "OrderedDict")
EMPTY = ORDERED + b")R"


class Program:
    """Opcodes that make a mapping of tensors, as torch.save writes them and as it never does.

    Args:
        number: of the case.
    """

    def __init__(self, number):
        self.draw = random.Random(number)
        self.kept = 0
        held = self.mapping(0) + b"."
        # what a program may have torch take more is not what torch_file.py asks torch for
        beside = self.draw.choice([b"", named("fractions", "Fraction")])
        self.opcodes = b"\x80\x02" + beside + held

    def once_in(self, of):
        return not self.draw.randrange(of)

    def storage(self):
        key, place = text(str(self.draw.randrange(STORAGES))), text("cpu")
        return some(text("storage"), named("torch", "FloatStorage"), key, place, short(4)) + b"Q"

    def layout(self):
        """Storage, offset, sizes and strides."""
        sizes, strides = self.draw.choice(
            [([4], [1]), ([2], [2]), ([2, 2], [2, 1]), ([2, 2], [1, 2])]
        )
        both = (some(*map(short, numbers)) for numbers in (sizes, strides))
        return [self.storage(), short(0), *both]

    def hooked(self):
        """Layout, gradient, hooks, and sometimes what a newer torch adds."""
        sign = mapping(text("neg") + b"\x88")
        return [
            *self.layout(),
            NO,
            EMPTY,
            *([self.draw.choice([sign, NOTHING])] * self.once_in(12)),
        ]

    def state(self, depth):
        state = mapping(self.entry(depth, ("data", "real", "x", "grad", "w")))
        return self.draw.choice([NOTHING, NOTHING, b"}", state, NOTHING + state + b"\x86"])

    def typed(self, depth):
        """A tensor by a function, a class, arguments and a state."""
        function, args = self.draw.choice(
            [
                (named("torch._utils", "_rebuild_tensor_v2"), self.hooked()),
                (named("torch._utils", "_rebuild_parameter"), [self.value(depth), NO, EMPTY]),
                (named("torch.nn.parameter", "Parameter"), [self.value(depth), NO]),
                (
                    named("torch._utils", "_rebuild_parameter_with_state"),
                    [self.value(depth), NO, EMPTY, self.state(depth)],
                ),
            ]
        )
        kind = self.draw.choice(
            [named("torch", "Tensor"), named("torch.nn.parameter", "Parameter")]
        )
        parts = some(function, kind, some(*args), self.state(depth))
        return named("torch._tensor", "_rebuild_from_type_v2") + parts + b"R"

    def tensor(self, depth):
        """Opcodes of a tensor."""
        drawn = self.draw.randrange(9)
        if depth > 3 or drawn < 4:
            return torchs("_rebuild_tensor_v2", *self.hooked())
        depth += 1
        if drawn < 5:
            kind = named("torch", "float32")
            return torchs("_rebuild_tensor_v3", *self.layout(), NO, EMPTY, kind)
        if drawn < 6:
            return torchs("_rebuild_parameter", self.value(depth), NO, EMPTY)
        if drawn < 7:
            args = [self.value(depth), NO, EMPTY, self.state(depth)]
            return torchs("_rebuild_parameter_with_state", *args)
        return self.typed(depth)

    def value(self, depth):
        """Opcodes that push one value: a tensor, a mapping, a list, a number, or one from the memo."""
        drawn = self.draw.randrange(20)
        if drawn < 12:
            value = self.tensor(depth)
        elif drawn < 15 and depth < 4:
            value = self.mapping(depth + 1)
        elif drawn < 16 and depth < 4:
            value = b"](" + b"".join(self.value(depth + 1) for _ in range(2)) + b"e"
        elif self.kept:
            value = b"h" + bytes([self.draw.randrange(self.kept)])
        else:
            value = short(3)
        if self.once_in(30):
            value += some(*self.layout()) + b"b"
        if self.once_in(50):
            value += self.state(depth) + b"b"
        if self.once_in(50):
            value += short(self.draw.randrange(3)) + short(7) + b"s"
        if self.kept < 200 and self.draw.random() < 0.6:
            value += b"q" + bytes([self.kept])
            self.kept += 1
        return value

    def entry(self, depth, names=("w", "w", "v", "u")):
        name = self.draw.choice(names)
        rotated = named("_codecs", "encode") + some(
            text(codecs.encode(name, "rot13")), text("rot13")
        )
        name = self.draw.choice([short(3), rotated + b"R", *[text(name)] * 8])
        return name + self.value(depth + 1)

    def mapping(self, depth):
        """Opcodes of a mapping: its constructor, items, and sometimes a state."""
        counter = named("collections", "Counter")
        pair = some(text("w"), self.value(depth + 1)) if depth < 3 else some(text("w"), short(1))
        empty = [b"}", b"}", b"}", EMPTY, EMPTY, named("UserList", "OrderedDict") + b")R"]
        other = [counter + b")R", counter + b")\x81", counter + mapping(self.entry(3)) + b"\x85R"]
        filled = [ORDERED + b"](" + pair + b"e\x85" + call for call in (b"R", b"\x81")]
        made = self.draw.choice([*empty, *other, *filled])
        items = b"".join(self.entry(depth) for _ in range(self.draw.randrange(1, 4)))
        state = self.state(depth) + b"b" if self.once_in(10) else b""
        return made + b"(" + items + b"u" + state


def mappings_in(value, seen):
    """Every mapping in a value that torch has read, each once."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, dict):
        yield value
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return
    for part in value:
        yield from mappings_in(part, seen)


def holds(mapping, tensors):
    known = {name: value for name, value in mapping.items() if torch.is_tensor(value)}
    return all(
        name in known and torch.equal(known[name].detach(), tensor)
        for name, tensor in tensors.items()
    )


def compare(folder, number):
    """A checkpoint of a case, by both readers; what both take is equal.

    Returns:
        Whether both took it.
    """
    path = folder / f"{number}.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", Program(number).opcodes)
        archive.writestr("a/byteorder", "little")
        for key in range(STORAGES):
            archive.writestr(f"a/data/{key}", (NUMBERS + 10 * key).numpy().tobytes())
        archive.writestr("a/version", "3\n")
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals([fractions.Fraction]):
            warnings.simplefilter("ignore")
            by_torch = torch.load(path, weights_only=True)
        read = load_checkpoint(path)
    except FaError as error:
        assert str(path) in str(error)
        return False
    except Exception:  # whatever torch raises
        return False
    finally:
        path.unlink()
    known = [*mappings_in(by_torch, set())]
    for place, state in read.mappings.items():
        assert any(holds(mapping, state.tensors) for mapping in known), (number, place)
    return True
