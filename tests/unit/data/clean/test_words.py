from __future__ import annotations

import numpy as np
import pytest

from llmstack.data.clean.words import mixed, ngram_hashes, normal_words, word_hashes


def test_case_punctuation_and_unicode_form_do_not_count():
    assert normal_words("It's the CAFE\u0301, (no. 2)!") == ["it", "s", "the", "caf\u00e9", "no", "2"]
    assert normal_words("\uff26\uff55\uff4c\uff4c") == ["full"]
    assert normal_words(" ... ") == []


def test_scripts_without_spaces_count_by_character():
    assert normal_words("新预算 budget") == ["新", "预", "算", "budget"]


def test_hashes_are_the_same_on_every_machine():
    assert word_hashes(["a", "b"]).tolist() == [0xE6C632B61E964E1F, 0x575A0B1C44D8843F]
    assert ngram_hashes(word_hashes(["a", "b"]), 2).tolist() == [0x1B41508975DA12DA]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_equal_ngrams_have_equal_numbers_and_others_have_not(size):
    rng = np.random.default_rng(0)
    words = [str(number) for number in rng.integers(0, 3, 200)]
    grams = ngram_hashes(word_hashes(words), size)
    texts = [" ".join(words[at : at + size]) for at in range(len(words) - size + 1)]
    assert len(grams) == len(texts)
    assert len(set(grams.tolist())) == len(set(texts)) == len(set(zip(grams.tolist(), texts, strict=True)))


def test_order_matters_and_short_texts_have_none():
    ab, ba = (ngram_hashes(word_hashes(words), 2) for words in (["a", "b"], ["b", "a"]))
    assert ab != ba
    assert ngram_hashes(word_hashes(["a"]), 2).shape == (0,)


def test_mixing_keeps_numbers_apart():
    assert len(np.unique(mixed(np.arange(10_000, dtype=np.uint64)))) == 10_000
