from __future__ import annotations

import matplotlib.image
import pytest

from llmstack.cli.data_plot import _outline, _ticks, plot
from llmstack.cli.data_stats import StageStatistics, stage_statistics
from llmstack.cli.recipe_data import RecipeData
from llmstack.errors import UserError
from tests.helpers.data_recipe import write_recipe


@pytest.fixture
def figures(tmp_path, monkeypatch) -> dict[str, StageStatistics]:
    monkeypatch.chdir(tmp_path)
    data = RecipeData(str(write_recipe(tmp_path)), [], stage=None)
    return {stage: stage_statistics(data, stage) for stage in data.stages}


def test_a_line_of_pictures_a_stage(figures, tmp_path):
    plot(figures, str(tmp_path / "all.png"))
    plot({"base": figures["base"]}, str(tmp_path / "base.png"))
    height, width, _ = matplotlib.image.imread(tmp_path / "base.png").shape
    assert matplotlib.image.imread(tmp_path / "all.png").shape[:2] == (4 * height, width)
    pixels = matplotlib.image.imread(tmp_path / "base.png")[..., :3].reshape(-1, 3)
    for colour in ((0.122, 0.467, 0.706), (1.0, 0.498, 0.055)):
        assert (abs(pixels - colour).max(axis=1) < 0.02).sum() > 500, "a curve of each part is drawn"


def test_the_outline_of_a_histogram():
    assert _outline([4, 6, 8], [0.25, 0.75]) == ([4, 4, 6, 6, 8, 8], [0.0, 0.25, 0.25, 0.75, 0.75, 0.0])
    assert _outline([0, 1], [1.0])[0] == [0.5, 0.5, 1, 1], "a logarithm has no zero"


def test_ticks_are_neither_few_nor_many():
    assert {24, 32} <= set(_ticks(24, 32))
    assert 4 <= len(_ticks(1, 1 << 20)) <= 12


def test_what_cannot_be_written(figures, tmp_path):
    with pytest.raises(UserError, match=r"--plot: expected a file that ends in .png, got 'x.pdf'"):
        plot(figures, "x.pdf")
    with pytest.raises(UserError, match=r"--plot: expected a file that can be written, got .*missing/x.png"):
        plot({"sft": figures["sft"]}, str(tmp_path / "missing" / "x.png"))
