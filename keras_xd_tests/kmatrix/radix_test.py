import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_xd import kmatrix
from keras_xd.kmatrix import radix as radices
from keras_xd.kmatrix.radix import factorise


@given(st.integers(1, 5000))
def test_prime_factors_multiply_to_the_size(n):
    factors = radices.prime_factors(n)
    assert math.prod(factors) == n
    assert all(all(f % d for d in range(2, math.isqrt(f) + 1)) for f in factors)


@given(st.integers(1, 3000), st.integers(2, 70))
def test_integer_radix_bounds_every_block_that_is_not_prime(n, radix):
    factors = factorise(n, radix)
    assert math.prod(factors) == n
    assert all(f <= radix or radices.prime_factors(f) == (f,) for f in factors)


def test_radix_of_the_size_gives_one_dense_block():
    assert factorise(36, 36) == (36,)


def test_given_radices_must_multiply_to_the_size():
    assert factorise(85, (5, 17)) == (5, 17)
    with pytest.raises(
        ValueError, match=r"multiply to the size.*\(5, 16\) \(product 80\), size 85"
    ):
        factorise(85, (5, 16))


@pytest.mark.parametrize("radix", [1, 0, -2, 2.0, "2", True, (), (2, 0), (2, 1.5)])
def test_impossible_radix(radix):
    with pytest.raises(ValueError, match="Received: radix="):
        radices.check_radix(radix)


@pytest.mark.parametrize("n", [0, -1, 2.5, None])
def test_impossible_size(n):
    with pytest.raises(ValueError, match=f"must be an integer.*Received: n={n}"):
        kmatrix.plan(n)


@pytest.mark.parametrize("need, size", [(1, 1), (2, 2), (33, 36), (65, 72), (7, 8), (1025, 1080)])
def test_cheapest_padded_size(need, size):
    assert kmatrix.padded_size(need) == size


@given(st.integers(1, 600))
def test_no_size_up_to_the_next_power_of_two_is_cheaper(need):
    size = kmatrix.padded_size(need)
    limit = 2 ** math.ceil(math.log2(need)) if need > 1 else 1
    assert need <= size <= limit
    cost = kmatrix.plan(size).parameters
    assert cost == min(kmatrix.plan(n).parameters for n in range(need, limit + 1))


@pytest.mark.parametrize("radix", [None, 2, 3, 8, 16, 64])
def test_no_cheaper_size_is_passed_over(radix):
    for need in [1, 2, 7, 33, 65, 100, 341, 1025]:
        limit = 1 << (need - 1).bit_length()
        costs = {n: n * sum(factorise(n, radix)) for n in range(need, limit + 1)}
        assert kmatrix.padded_size(need, radix) == min(costs, key=lambda n: (costs[n], n))


def test_a_padded_size_is_found_once(monkeypatch):
    radices._cheapest_size.cache_clear()
    assert kmatrix.padded_size(4099) == 4374
    monkeypatch.setattr(radices, "_factorised", None)
    assert kmatrix.padded_size(4099) == 4374


def test_given_radices_fix_the_padded_size_or_fail():
    assert kmatrix.padded_size(33, (6, 6)) == 36
    with pytest.raises(ValueError, match=r"at least 33.*\(4, 8\) \(product 32\)"):
        kmatrix.padded_size(33, (4, 8))


def test_cost_rule_takes_more_groups_for_larger_sizes():
    counts = [len(kmatrix.plan(n, depth=3).groups) for n in (32, 1024, 2**18)]
    assert counts == [1, 2, 3]
    assert kmatrix.plan(1024, depth=3).group_sizes == (32, 32)
    assert kmatrix.plan(1080, depth=3).group_sizes == (24, 45)


def test_many_columns_pay_for_one_dense_matrix():
    assert len(kmatrix.plan(128, depth=9, columns=64).groups) == 2
    assert len(kmatrix.plan(128, depth=9, columns=100_000).groups) == 1


def test_groups_can_be_given_and_must_add_up():
    assert kmatrix.plan(64, groups=(2, 2, 2)).group_sizes == (4, 4, 4)
    with pytest.raises(ValueError, match=r"add up to the number of stages.*\(2, 2\)"):
        kmatrix.plan(64, groups=(2, 2))


@pytest.mark.parametrize("count, depth, products", [(1, 9, 1), (2, 1, 2), (2, 3, 4), (3, 3, 7)])
def test_neighbouring_butterflies_share_a_group(count, depth, products):
    plan = kmatrix.plan(64, groups={1: (6,), 2: (3, 3), 3: (2, 2, 2)}[count])
    assert len(radices.block_products(plan, depth)) == products


@pytest.mark.parametrize("radix", [[2, 4], np.array([2, 4])])
def test_radices_in_any_sequence(radix):
    assert factorise(8, radix) == (2, 4)


@given(st.integers(1, 3000))
def test_the_fastest_size_fits_and_has_at_most_twice_the_parameters(need):
    size, fewest = kmatrix.padded_size(need, "fastest"), kmatrix.padded_size(need)
    assert need <= size <= fewest
    assert factorise(size, "fastest") == radices.prime_factors(size)
    counts = [radices.parameter_count(n) for n in (size, fewest)]
    assert counts[0] <= 2 * counts[1]


@pytest.mark.parametrize(
    "need, size",
    # 67 and 131 are prime: one dense block, with five times the parameters of 72 and 135.
    [(30, 30), (33, 33), (65, 65), (66, 66), (67, 68), (128, 128), (131, 132), (8191, 8192)],
)
def test_the_fastest_padded_size(need, size):
    """Sizes that were measured as the fastest or near them."""
    assert kmatrix.padded_size(need, "fastest") == size
    assert kmatrix.padded_size(need, "time") == size  # in files of versions up to 0.2


@pytest.mark.parametrize("function", [kmatrix.padded_size, factorise, kmatrix.plan])
def test_other_words_are_refused(function):
    with pytest.raises(ValueError, match="'fastest'.*Received: radix='fast'"):
        function(33, "fast")
