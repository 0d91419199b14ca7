"""Saved states that are damaged, or sealed with nonsense inside, for any object that is saved."""

import numpy as np
import pytest

from hivecore._sealed import seal, unseal
from hivecore.errors import CorruptStateError


def damaged_bytes_are_refused(make):
    data = make().to_bytes()
    load = type(make()).from_bytes
    for position in range(len(data)):
        with pytest.raises(CorruptStateError):
            load(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with pytest.raises(CorruptStateError):
            load(data[:position])
    with pytest.raises(TypeError, match="data must be bytes"):
        load("text")


def sealed_nonsense_is_refused_or_sound(make):
    """Whatever a payload says, the outcome is an error or an object in a possible state."""
    data = make().to_bytes()
    magic = data[:4]
    payload = unseal(magic, 1, data)
    rng = np.random.default_rng(3)
    accepted = 0
    for _ in range(1500):
        changed = bytearray(payload)
        for _ in range(int(rng.integers(1, 3))):
            position = int(rng.integers(len(changed)))
            changed[position] = int(rng.choice([0, 1, 2, 3, 127, 128, 255, rng.integers(256)]))
        # Sizes may be plausible and huge; what they would need is not there or not allocated here.
        if magic == b"HCRC" and (any(changed[2:8]) or any(changed[10:16])):
            continue
        try:
            thing = type(make()).from_bytes(seal(magic, 1, bytes(changed)))
        except CorruptStateError:
            continue
        thing.check()
        assert type(thing).from_bytes(thing.to_bytes()).to_bytes() == thing.to_bytes()
        accepted += 1
    assert accepted > 0
