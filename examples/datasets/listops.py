"""ListOps: nested operations on lists of digits, generated; what is asked for is the value.

`[MAX 2 9 [MIN 4 7 ] 0 ]` is 9. An expression is an operation with the probability ¼, else a digit;
nine operations inside each other are the most. An operation has 2 to 10 arguments: minimum,
maximum, median (rounded down) or sum modulo 10. Kept are expressions of certain lengths, each once:
the recipe of the Long Range Arena, whose expressions have 500 to 2,000 tokens.
"""

import random
import statistics

import numpy as np

OPERATIONS = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(statistics.median(values)),
    "[SM": lambda values: sum(values) % 10,
}
CLOSING = "]"
FILL, END = 0, 1
TOKENS = ["<fill>", "<end>", *map(str, range(10)), *OPERATIONS, CLOSING]
NUMBERS = {token: number for number, token in enumerate(TOKENS)}
OPERATION_SHARE, DEEPEST, ARGUMENTS = 0.25, 9, (2, 10)
SAMPLES = (96000, 2000, 2000)
CLASSES = 10


def load(numbers=SAMPLES, shortest=500, longest=2048, seed=0):
    """Return `(train, validation, test)`, pairs of token numbers, `(number, longest)`, and values.

    An expression has `shortest` tokens or more, then one for its end and zeros.
    """
    if not ARGUMENTS[0] + 2 <= shortest < longest:
        raise ValueError(
            f"`shortest` must be from {ARGUMENTS[0] + 2}, an operation on two digits, to below "
            f"`longest`. Received: shortest={shortest!r}, longest={longest!r}"
        )
    generator = random.Random(seed)
    found, drawn = {}, 0
    while len(found) < sum(numbers):
        tokens, value = expression(generator, shortest, longest - 1)
        found[tuple(tokens)] = value
        drawn += 1
        if drawn > 1000 + 10 * sum(numbers):
            raise ValueError(
                "There must be as many different expressions as are asked for. Received: "
                f"numbers={tuple(numbers)}, shortest={shortest}, longest={longest}, with which "
                f"{drawn} draws gave {len(found)}"
            )
    inputs = np.full((len(found), longest), FILL, "int32")
    for row, tokens in zip(inputs, found, strict=True):
        row[: len(tokens)] = [NUMBERS[token] for token in tokens]
        row[len(tokens)] = END
    borders = np.cumsum(numbers)[:-1]
    values = np.array(list(found.values()))
    return tuple(zip(np.split(inputs, borders), np.split(values, borders), strict=True))


def expression(generator, shortest, longest):
    """Draw an operation by a `random.Random`; return the list of its tokens, and its value."""
    while True:
        # Most draws by the recipe are a single digit, which is always too short.
        tokens = []
        value = _operation(generator, 1, longest, tokens)
        if value is not None and len(tokens) >= shortest:
            return tokens, value


def _draw(generator, depth, longest, tokens):
    """Append a random expression to tokens; return its value, `None` if they are too many."""
    if depth <= DEEPEST and generator.random() < OPERATION_SHARE:
        return _operation(generator, depth, longest, tokens)
    digit = generator.randint(0, 9)
    tokens.append(str(digit))
    return digit if len(tokens) <= longest else None


def _operation(generator, depth, longest, tokens):
    arguments, values = generator.randint(*ARGUMENTS), []
    name = generator.choice(list(OPERATIONS))
    tokens.append(name)
    for _ in range(arguments):
        values.append(_draw(generator, depth + 1, longest, tokens))
        if values[-1] is None:
            return None
    tokens.append(CLOSING)
    return OPERATIONS[name](values) if len(tokens) <= longest else None
