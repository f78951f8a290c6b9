from __future__ import annotations

import numpy as np
import pytest

from llmstack.config.parallel import AXES
from llmstack.parallel.mesh import Mesh
from tests.helpers.plans import layout


def test_by_hand_two_stages_of_two_by_two():
    mesh = Mesh(pipeline=2, data=2, tensor=2)
    assert mesh.coordinates(5) == {"pipeline": 1, "data": 0, "context": 0, "tensor": 1}
    assert mesh.groups("tensor") == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert mesh.groups("data") == [(0, 2), (1, 3), (4, 6), (5, 7)]
    assert mesh.groups("pipeline") == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert mesh.groups("data", "tensor") == [(0, 1, 2, 3), (4, 5, 6, 7)]


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (2, 3, 1, 4), (3, 2, 5, 2)])
def test_ranks_are_numbered_like_the_entries_of_an_array(sizes):
    mesh = Mesh(**dict(zip(AXES, sizes, strict=True)))
    order = np.arange(mesh.num_devices).reshape(sizes)
    for place in np.ndindex(*sizes):
        coordinates = dict(zip(AXES, place, strict=True))
        assert mesh.rank(coordinates) == order[place]
        assert mesh.coordinates(int(order[place])) == coordinates
    for index, axis in enumerate(AXES):
        rows = np.moveaxis(order, index, -1).reshape(-1, sizes[index])
        assert mesh.groups(axis) == [tuple(row) for row in rows.tolist()]


def test_all_axes_together_are_one_group():
    assert Mesh(2, 2, 1, 2).groups(*AXES) == [tuple(range(8))]


def test_hosts_are_crossed_by_the_outer_axes():
    mesh = Mesh.of(layout(data=2, tensor=4))
    assert mesh == Mesh(1, 2, 1, 4)
    assert not mesh.crosses(4, "tensor") and mesh.crosses(4, "data") and not mesh.crosses(8, "data")
    assert Mesh(tensor=8).crosses(4, "tensor")


def test_what_is_not_on_the_mesh_is_refused():
    with pytest.raises(ValueError, match="rank: expected 0 to 1, got 2"):
        Mesh(tensor=2).coordinates(2)
    with pytest.raises(ValueError, match="tensor: expected 0 to 1, got 2"):
        Mesh(tensor=2).rank({"pipeline": 0, "data": 0, "context": 0, "tensor": 2})
