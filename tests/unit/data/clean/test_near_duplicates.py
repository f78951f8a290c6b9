from __future__ import annotations

import numpy as np
import pytest
from datasketch import MinHash, MinHashLSH

from llmstack.config.clean import NearDuplicatesConfig
from llmstack.data.clean.near_duplicates import (
    NearDuplicates,
    bands_for,
    cluster,
    shingle_hashes,
    signature,
)
from tests.tolerances import STANDARD_ERRORS
from tests.unit.data.clean.corpus import Writer, document, dropped, outcomes, precision_and_recall, with_copies


def step(**options) -> NearDuplicates:
    return NearDuplicates(NearDuplicatesConfig(kind="near_duplicates", **options), seed=1)


def test_precision_and_recall_are_one_for_lightly_edited_copies():
    """Two words of about 170 changed: similarity 0.89. Documents that share half their lines (0.33) are kept."""
    corpus = with_copies(8, originals=200, copies=50, edits=2)
    assert precision_and_recall(dropped(outcomes(step(), corpus.texts)), corpus.planted) == (1.0, 1.0)


def test_what_is_far_from_the_threshold_is_kept():
    corpus = with_copies(9, originals=50, copies=20, edits=20)
    assert dropped(outcomes(step(), corpus.texts)) == set()
    assert dropped(outcomes(step(threshold=0.2), corpus.texts)) >= corpus.planted


def test_bands_and_rows_can_be_given():
    corpus = with_copies(8, originals=60, copies=20, edits=2)
    assert dropped(outcomes(step(bands=32, rows=4), corpus.texts)) == corpus.planted
    one = step(bands=32, rows=4)
    one.collect(np.arange(1), [one.scan(document("a b c"))])
    details = one.decide().step.details()
    assert (details["bands"], details["rows"]) == (32, 4)


def test_order_does_not_matter_to_the_clusters_and_the_first_is_kept():
    corpus = with_copies(10, originals=40, copies=15, edits=2)
    forward = outcomes(step(), corpus.texts)
    backward = outcomes(step(), corpus.texts[::-1])
    assert len(dropped(forward)) == len(dropped(backward)) == 15
    assert dropped(forward).isdisjoint(len(corpus.texts) - 1 - number for number in dropped(backward))


def test_shingles_are_runs_of_words():
    assert len(shingle_hashes("one two three four five six", 5)) == 2
    assert len(shingle_hashes("one two one two one two", 2)) == 2
    assert shingle_hashes("One, TWO!", 5).tolist() == shingle_hashes("one two", 2).tolist()
    assert len(shingle_hashes("...", 5)) == 0


def test_texts_without_words_are_like_no_other():
    assert dropped(outcomes(step(), ["...", "...", "one two three", "One two, three"])) == {3}
    assert outcomes(step(), ["...", "!"])[1].text == "!"


def test_a_signature_is_datasketch_s_and_estimates_the_similarity():
    sets = [np.arange(0, 800, dtype=np.uint32), np.arange(200, 1000, dtype=np.uint32)]
    mine = [signature(shingles, num_perm=4096, seed=1) for shingles in sets]
    theirs = MinHash(4096, seed=1, hashfunc=int)
    theirs.update_batch(sets[0])
    assert mine[0].tolist() == theirs.hashvalues.tolist()
    similarity = 600 / 1000
    error = (similarity * (1 - similarity) / 4096) ** 0.5
    assert abs((mine[0] == mine[1]).mean() - similarity) < STANDARD_ERRORS * error


@pytest.mark.parametrize("threshold", [0.5, 0.8])
def test_clusters_are_those_of_datasketch_s_index(threshold):
    """Candidates from its buckets, the same test of the estimate, connected parts by brute force."""
    writer = Writer(11)
    texts = []
    for _ in range(30):
        text = "\n".join(writer.lines(6))
        texts += [text, *(writer.edited(text, edits) for edits in (1, 2, 3, 5, 8))]
    signatures = np.stack([signature(shingle_hashes(text, 3), num_perm=128, seed=1) for text in texts])
    bands, rows = bands_for(threshold, 128)
    index = MinHashLSH(num_perm=128, params=(bands, rows))
    sketches = [MinHash(hashvalues=row, scheme="affine32") for row in signatures]
    for number, sketch in enumerate(sketches):
        index.insert(number, sketch)
    roots = list(range(len(texts)))
    for number, sketch in enumerate(sketches):
        for other in index.query(sketch):
            if sketch.jaccard(sketches[other]) >= threshold and roots[number] != roots[other]:
                low, high = sorted((roots[number], roots[other]))
                roots = [low if root == high else root for root in roots]
    assert len(set(roots)) < len(texts)
    assert cluster(signatures, bands=bands, rows=rows, threshold=threshold).tolist() == roots


def test_one_large_cluster_of_different_signatures_is_found_at_once():
    rng = np.random.default_rng(0)
    signatures = np.tile(rng.integers(0, 2**32, 128, dtype=np.uint32), (3000, 1))
    signatures[np.arange(3000), rng.integers(0, 128, 3000)] = rng.integers(0, 2**32, 3000, dtype=np.uint32)
    assert set(cluster(signatures, bands=14, rows=9, threshold=0.9).tolist()) == {0}


def test_a_chain_is_one_cluster_though_its_ends_differ():
    chain = np.zeros((4, 10), np.uint32)
    chain[1, 1:4], chain[2, 1:7], chain[3, 1:10] = 1, [1, 1, 1, 2, 2, 2], [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert cluster(chain, bands=1, rows=1, threshold=0.7).tolist() == [0, 0, 0, 0]
    assert cluster(chain, bands=1, rows=1, threshold=0.8).tolist() == [0, 1, 2, 3]
    assert cluster(chain[[0, 2, 1]], bands=1, rows=1, threshold=0.7).tolist() == [0, 0, 0]


def test_bands_favour_finding_pairs_at_the_threshold():
    bands, rows = bands_for(0.8, 128)
    assert bands * rows <= 128
    assert 1 - (1 - 0.85**rows) ** bands > 0.95
