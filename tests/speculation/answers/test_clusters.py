import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.cluster import KMeans

from readahead.speculation.answers.clusters import beyond_question, k_means

points = st.tuples(st.integers(1, 12), st.integers(1, 4)).flatmap(
    lambda shape: arrays(
        np.float32, shape, elements=st.sampled_from([0.0, 0.5, 1.0]) | st.floats(-1, 1, width=32)
    )
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(points, st.integers(1, 6), st.integers(0, 3))
def test_every_cluster_has_points_and_the_same_seed_gives_the_same(
    points: np.ndarray, k: int, seed: int
) -> None:
    labels = k_means(points, k, rng(seed))
    assert set(labels.tolist()) == set(range(min(k, len(points))))
    firsts = list(dict.fromkeys(labels.tolist()))
    assert firsts == sorted(firsts)  # numbered by first appearance
    assert np.array_equal(labels, k_means(points.copy(), k, rng(seed)))


@given(st.integers(1, 8), st.integers(1, 5))
def test_equal_points_are_shared_out(num: int, k: int) -> None:
    labels = k_means(np.full((num, 3), 0.3, np.float32), k, rng())
    assert len(set(labels.tolist())) == min(num, k)


@pytest.mark.parametrize("seed", range(20))
def test_groups_that_stand_apart_are_found(seed: int) -> None:
    centres = np.array([[0, 0], [10, 0], [0, 10]])
    points = np.concatenate([centre + rng(seed).normal(size=(4, 2)) for centre in centres])
    assert k_means(points.astype(np.float32), 3, rng(seed)).tolist() == [0] * 4 + [1] * 4 + [2] * 4


@pytest.mark.parametrize("seed", range(20))
def test_scikit_learn_would_move_no_point(seed: int) -> None:
    points = rng(seed).normal(size=(40, 3)).astype(np.float32)
    labels = k_means(points, 4, rng(seed))
    means = np.stack([points[labels == cluster].mean(axis=0) for cluster in range(4)])
    oracle = KMeans(4, init=means, n_init=1).fit(points)
    assert np.array_equal(labels, oracle.labels_)


@pytest.mark.parametrize("seed", range(10))
def test_noise_of_the_last_bits_moves_nothing(seed: int) -> None:
    # The middle one is as near to either end.
    low, high = (np.array([[0], [middle], [2]], np.float32) for middle in (1 - 1e-7, 1 + 2e-7))
    assert np.array_equal(k_means(low, 2, rng(seed)), k_means(high, 2, rng(seed)))


def test_none_is_no_cluster() -> None:
    assert k_means(np.zeros((0, 3), np.float32), 2, rng()).tolist() == []


def test_what_all_share_with_the_question_is_taken_out() -> None:
    question = np.array([1, 0, 0], np.float32)
    vectors = np.array([[0.8, 0.6, 0], [0.6, 0.8, 0], [0.8, 0, 0.6], [1, 0, 0]], np.float32)
    expected = [[0, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert beyond_question(vectors, question) == pytest.approx(np.array(expected), abs=1e-6)
