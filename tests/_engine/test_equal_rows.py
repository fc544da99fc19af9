import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralrace._engine import equal_rows as module
from neuralrace._engine.equal_rows import partition, representatives


@given(
    st.integers(min_value=0, max_value=12).flatmap(
        lambda rows: st.lists(st.lists(st.sampled_from([0.0, 1.0, -2.5]), min_size=rows, max_size=rows), max_size=6)
    )
)
@settings(max_examples=100)
def test_rows_agree_exactly_if_their_labels_do(columns):
    count = len(columns[0]) if columns else 3
    labels = partition(count, [np.array(column) for column in columns])
    rows = [tuple(column[i] for column in columns) for i in range(count)]
    for i in range(count):
        for j in range(count):
            assert (labels[i] == labels[j]) == (rows[i] == rows[j])
    assert sorted(set(labels)) == list(range(len(set(rows))))
    first = representatives(labels)
    assert [int(labels[i]) for i in first] == list(range(len(first)))
    assert all(i == np.flatnonzero(labels == labels[i])[0] for i in first)


def test_more_two_valued_columns_than_are_packed_at_once(monkeypatch):
    columns = np.random.default_rng(0).integers(2, size=(11, 40)).astype(float)
    whole = partition(40, columns)
    monkeypatch.setattr(module, "PACKED", 3)
    np.testing.assert_array_equal(np.unique(whole), np.arange(len(np.unique(columns.T, axis=0))))
    parts = partition(40, columns)
    assert len(np.unique(np.stack([whole, parts]), axis=1).T) == len(np.unique(whole))
