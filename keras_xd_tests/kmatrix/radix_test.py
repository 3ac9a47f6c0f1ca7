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


def test_radices_of_a_size():
    assert factorise(36, 36) == (36,)
    assert factorise(85, (5, 17)) == (5, 17)
    for radix in ([2, 4], np.array([2, 4])):
        assert factorise(8, radix) == (2, 4)


BAD = [
    *((lambda r=r: radices.check_radix(r), "radix=") for r in (1, 0, -2, 2.0, "2", True)),
    *((lambda r=r: radices.check_radix(r), "radix=") for r in ((), (2, 0), (2, 1.5))),
    *((lambda n=n: kmatrix.plan(n), f"integer.*Received: n={n}") for n in (0, -1, 2.5, None)),
    (lambda: factorise(85, (5, 16)), r"to the size.*\(5, 16\) \(product 80\), size 85"),
    (lambda: kmatrix.padded_size(33, (4, 8)), r"at least 33.*\(4, 8\) \(product 32\)"),
    (lambda: kmatrix.plan(64, groups=(2, 2)), r"add up to the number of stages.*\(2, 2\)"),
    (lambda: kmatrix.plan(33, "fast"), "'fastest'.*Received: radix='fast'"),
    (lambda: factorise(33, "fast"), "'fastest'.*Received: radix='fast'"),
    (lambda: kmatrix.padded_size(33, "fast"), "'fastest'.*Received: radix='fast'"),
]


@pytest.mark.parametrize("call, message", BAD)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("radix", [None, 2, 3, 8, 16, 64])
def test_no_cheaper_size_is_passed_over(radix):
    assert kmatrix.padded_size(33, (6, 6)) == 36
    for need in [1, 2, 7, 33, 65, 100, 341, 1025]:
        limit = 1 << (need - 1).bit_length()
        costs = {n: n * sum(factorise(n, radix)) for n in range(need, limit + 1)}
        assert kmatrix.padded_size(need, radix) == min(costs, key=lambda n: (costs[n], n))


def test_cost_rule_takes_more_groups_for_larger_sizes():
    counts = [len(kmatrix.plan(n, depth=3).groups) for n in (32, 1024, 2**18)]
    assert counts == [1, 2, 4]
    assert kmatrix.plan(1024, depth=3).group_sizes == (32, 32)
    assert kmatrix.plan(1080, depth=3).group_sizes == (24, 45)


@pytest.mark.parametrize("depth", [1, 3])
def test_few_columns_do_not_pay_for_multiplying_out_large_blocks(depth):
    sizes = [kmatrix.plan(4374, depth=depth, columns=c).group_sizes for c in (1, 64, 256)]
    assert sizes == [(6, 9, 9, 9), (6, 9, 9, 9), (18, 9, 27)]
    # Nor what no longer stays in a cache.
    assert kmatrix.plan(17496, depth=depth, columns=64).group_sizes == (4, 6, 9, 9, 9)


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
