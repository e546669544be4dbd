"""Runs of words as numbers: what near duplicates and leaks are found by."""

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import xxhash
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"\w+|[^\w\s]")
# Text within JSON has its line ends and tabs written as \n and \t, which would stick to the next word.
_ESCAPE = re.compile(r"\\+[nrt]")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT = np.uint64(31)


def words(text: str) -> list[str]:
    """Runs of letters, digits and underscores, in lower case: the words of the method's formulas."""
    return _WORD.findall(_ESCAPE.sub(" ", text).lower())


def tokens(text: str) -> list[str]:
    """Words as they are written, and each sign: two commands that differ in a flag differ here."""
    return _TOKEN.findall(text)


@lru_cache(maxsize=1 << 17)
def _number(word: str) -> int:
    return xxhash.xxh3_64_intdigest(word)


def ngram_hashes(items: Sequence[str], n: int) -> Hashes:
    """A 64-bit hash for each run of `n` items, in order; none where there are fewer items.

    Equal runs have equal hashes, everywhere and always. Two of a thousand million different ones agree with a
    probability of 3 %, and one of them with one of a million others with 5 in 100,000.
    """
    count = len(items) - n + 1
    if count < 1:
        return np.empty(0, np.uint64)
    numbers = np.fromiter(map(_number, items), np.uint64, len(items))
    hashes = np.zeros(count, np.uint64)
    for position in range(n):
        hashes *= _FACTOR
        hashes += numbers[position : position + count]
    return scramble(hashes)


def scramble(numbers: Hashes) -> Hashes:
    """Each number as another one that looks random: a bijection."""
    mixed = (numbers ^ (numbers >> _SHIFT)) * _MIX
    mixed = (mixed ^ (mixed >> _SHIFT)) * _FACTOR
    return mixed ^ (mixed >> _SHIFT)


def is_in(hashes: Hashes, known: Hashes) -> NDArray[np.bool_]:
    """For each of `hashes`, whether it stands in `known`, which is sorted."""
    if not len(known):
        return np.zeros(len(hashes), np.bool_)
    places = np.searchsorted(known, hashes)
    places[places == len(known)] = 0
    found: NDArray[np.bool_] = known[places] == hashes
    return found


__all__ = ["Hashes", "is_in", "ngram_hashes", "scramble", "tokens", "words"]
