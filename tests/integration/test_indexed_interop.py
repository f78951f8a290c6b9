"""Token files written here are read by MindFormers' own classes with equal samples, and theirs by ours."""

from __future__ import annotations

import types

import numpy as np
import pytest

from llmstack.data.indexed import IndexedTokens
from llmstack.data.indexed_writer import IndexedWriter
from llmstack.integrations.mindformers.library import quietly

DTYPES = ("uint8", "int8", "int16", "int32", "int64", "uint16")
LENGTHS = np.array([7, 1, 30, 0, 12, 5, 64, 3, 3, 21])
DOCUMENT_ENDS = (2, 3, 7, 10)
SEQ_LEN = 16


@pytest.fixture(scope="module")
def theirs():
    """MindFormers' own module of token files."""
    with quietly():
        from mindformers.dataset.blended_datasets import indexed_dataset
    return indexed_dataset


def sequences():
    ids = np.random.default_rng(0).integers(0, 128, LENGTHS.sum())
    return np.split(ids, np.cumsum(LENGTHS)[:-1])


def write_ours(prefix, dtype, *, documents):
    with IndexedWriter(prefix, dtype) as writer:
        for number, ids in enumerate(sequences(), start=1):
            writer.add(ids)
            if documents and number in DOCUMENT_ENDS:
                writer.end_document()
    return prefix


def write_theirs(module, prefix, dtype, *, documents):
    builder = module.IndexedDatasetBuilder(f"{prefix}.bin", dtype=np.dtype(dtype).type)
    for number, ids in enumerate(sequences(), start=1):
        builder.add_item(ids.astype(dtype))  # it writes what it is given, whatever dtype it was made for
        if not documents or number in DOCUMENT_ENDS:
            builder.end_document()
    builder.finalize(f"{prefix}.idx")
    return prefix


@pytest.mark.parametrize("documents", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_both_write_the_same_bytes(theirs, tmp_path, dtype, documents):
    ours = write_ours(tmp_path / "ours", dtype, documents=documents)
    other = write_theirs(theirs, tmp_path / "theirs", dtype, documents=documents)
    for ending in ("bin", "idx"):
        assert ours.with_suffix(f".{ending}").read_bytes() == other.with_suffix(f".{ending}").read_bytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mapped", [True, False])
def test_their_reader_reads_ours(theirs, tmp_path, dtype, mapped):
    data = theirs.IndexedDataset(str(write_ours(tmp_path / "ours", dtype, documents=True)), mmap=mapped)
    assert len(data) == len(LENGTHS)
    for i, ids in enumerate(sequences()):
        assert data[i].dtype == dtype
        np.testing.assert_array_equal(data[i], ids)
    np.testing.assert_array_equal(data.get(6, offset=10, length=20), sequences()[6][10:30])
    assert data.document_indices.tolist() == [0, *DOCUMENT_ENDS]


@pytest.mark.parametrize("dtype", DTYPES)
def test_our_reader_reads_theirs(theirs, tmp_path, dtype):
    data = IndexedTokens(write_theirs(theirs, tmp_path / "theirs", dtype, documents=True))
    assert data.dtype == dtype and data.documents.tolist() == [0, *DOCUMENT_ENDS]
    for ours, ids in zip(data, sequences(), strict=True):
        np.testing.assert_array_equal(ours, ids)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_their_floating_point_files_are_refused(theirs, tmp_path, dtype):
    with pytest.raises(ValueError, match=rf"expected a dtype code for ids .*\({dtype}\)"):
        IndexedTokens(write_theirs(theirs, tmp_path / "theirs", dtype, documents=True))


def test_their_multimodal_file_is_refused(theirs, tmp_path):
    builder = theirs.IndexedDatasetBuilder(str(tmp_path / "theirs.bin"), dtype=np.int32, multimodal=True)
    builder.add_item(np.array([1, 2], np.int32), mode=1)
    builder.end_document()
    builder.finalize(str(tmp_path / "theirs.idx"))
    with pytest.raises(ValueError, match="got one with a mode for each sequence"):
        IndexedTokens(tmp_path / "theirs")


def sample_starts(lengths, order, seq_len, epochs, tokens, drop_last, extra):
    """What MindFormers' C++ helper gives: where each sample starts, as place in ``order`` and offset, (samples + 1, 2).

    Here from the starts of the documents when they are laid one behind the other in that order.
    """
    assert drop_last and tokens * epochs == lengths[order].sum()
    starts = np.arange((tokens * epochs - extra) // seq_len + 1) * seq_len
    ends = np.cumsum(lengths[order])
    place = np.searchsorted(ends, starts, side="right")
    return np.stack([place, starts - (ends - lengths[order])[place]], axis=1)


def gpt_dataset(monkeypatch, prefix, num_samples, cache):
    """MindFormers' GPTDataset over a pair; its helper would be compiled inside site-packages."""
    with quietly():
        from mindformers.dataset import blended_datasets
        from mindformers.dataset.blended_datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
        from mindformers.dataset.blended_datasets.utils import Split
    helpers = types.SimpleNamespace(build_sample_idx=sample_starts)
    monkeypatch.setattr(blended_datasets, "helpers", helpers, raising=False)
    config = GPTDatasetConfig(
        random_seed=3, sequence_length=SEQ_LEN, blend=([str(prefix)], None), split="1,0,0", path_to_cache=str(cache),
        reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False, create_attention_mask=False,
    )  # fmt: skip
    data = GPTDataset.build_low_level_dataset(str(prefix), config)
    indices = np.arange(GPTDataset.numel_low_level_dataset(data), dtype=np.int32)
    return GPTDataset(data, str(prefix), indices, num_samples, Split.train, config)


@pytest.mark.parametrize("num_samples", [None, 20])
@pytest.mark.parametrize("dtype", ["uint16", "int32"])
def test_their_training_samples_are_our_tokens(tmp_path, monkeypatch, dtype, num_samples):
    prefix = write_ours(tmp_path / "ours", dtype, documents=False)
    samples = gpt_dataset(monkeypatch, prefix, num_samples, tmp_path / "cache")
    data = IndexedTokens(prefix)
    stream = np.concatenate([data[i] for i in samples.document_index])
    assert len(samples) == (len(stream) - 1) // SEQ_LEN >= (num_samples or 1)
    for i in range(len(samples)):
        start = int(samples.shuffle_index[i]) * SEQ_LEN
        tokens, labels, loss_mask, _ = samples[i]
        np.testing.assert_array_equal(tokens, stream[start : start + SEQ_LEN])
        np.testing.assert_array_equal(labels, stream[start + 1 : start + SEQ_LEN + 1])
        assert loss_mask.all()
