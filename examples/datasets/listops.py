"""ListOps: nested operations on lists of digits, generated; what is asked for is the value.

`[MAX 2 9 [MIN 4 7 ] 0 ]` is 9. An expression is an operation with the probability ¼, else a digit;
nine operations inside each other are the most. An operation has 2 to 10 arguments and is one of

- `MIN`, `MAX`;
- `MED`: the median, rounded down;
- `SM`: the sum modulo 10.

Kept are expressions of certain lengths, each once. This is the recipe of the Long Range Arena,
whose expressions have 500 to 2,000 tokens. An opening bracket and its operation are one token.
"""

import random

import numpy as np

OPERATIONS = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: _median(sorted(values)),
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
    """Return `(train, validation, test)`, each a pair of token numbers and values.

    No expression is in two parts.

    Args:
        numbers: how many expressions each part has.
        shortest: smallest number of tokens of an expression.
        longest: length of all sequences: an expression, a token for its end, and zeros. So an
            expression has at most one token less.
        seed: integer that the expressions follow from.

    Returns:
        Three pairs of an int32 array `(number, longest)` and an integer array of values, 0 to 9.

    Raises:
        ValueError: if the lengths leave no expressions, or too few different ones are found.
    """
    _check_lengths(shortest, longest)
    generator = random.Random(seed)
    found, drawn = {}, 0
    while len(found) < sum(numbers):
        tokens = expression(generator, shortest, longest - 1)
        found[tuple(tokens)] = None
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
    values = np.array([evaluate(tokens) for tokens in found])
    borders = np.cumsum(numbers)[:-1]
    return tuple(zip(np.split(inputs, borders), np.split(values, borders), strict=True))


def expression(generator, shortest, longest):
    """Draw an operation of a number of tokens, as a list of them.

    Args:
        generator: a `random.Random`.
        shortest, longest: the smallest and the largest number of tokens; the largest is at least 4.
    """
    while True:
        # Most draws by the recipe are a single digit, which is always too short.
        tokens = []
        if _append_operation(generator, 1, longest, tokens) and len(tokens) >= shortest:
            return tokens


def _append(generator, depth, longest, tokens):
    """Append a random expression to tokens; return whether they are not too many."""
    if depth <= DEEPEST and generator.random() < OPERATION_SHARE:
        return _append_operation(generator, depth, longest, tokens)
    tokens.append(str(generator.randint(0, 9)))
    return len(tokens) <= longest


def _append_operation(generator, depth, longest, tokens):
    arguments = generator.randint(*ARGUMENTS)
    tokens.append(generator.choice(list(OPERATIONS)))
    for _ in range(arguments):
        if not _append(generator, depth + 1, longest, tokens):
            return False
    tokens.append(CLOSING)
    return len(tokens) <= longest


def evaluate(tokens):
    """Return the value of an expression, 0 to 9.

    Args:
        tokens: list of tokens, or a text of tokens with spaces between.

    Raises:
        ValueError: if they are no expression.
    """
    tokens = tokens.split() if isinstance(tokens, str) else list(tokens)
    open_lists = [(None, [])]
    for token in tokens:
        if token in OPERATIONS:
            open_lists.append((token, []))
        elif token == CLOSING and len(open_lists) > 1 and open_lists[-1][1]:
            operation, values = open_lists.pop()
            open_lists[-1][1].append(OPERATIONS[operation](values))
        elif len(token) == 1 and token in "0123456789":
            open_lists[-1][1].append(int(token))
        else:
            break
    else:
        if len(open_lists) == 1 and len(open_lists[0][1]) == 1:
            return open_lists[0][1][0]
    raise ValueError(
        "An expression must be a digit, or one of the operations "
        f"{', '.join(OPERATIONS)}, expressions, and {CLOSING!r}. Received: {' '.join(tokens)!r}"
    )


def _median(values):
    """Return the median of sorted digits, rounded down."""
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) // 2


def _check_lengths(shortest, longest):
    smallest = ARGUMENTS[0] + 2
    if not smallest <= shortest < longest:
        raise ValueError(
            f"`shortest` must be from {smallest}, an operation on two digits, to below `longest`, "
            "which an expression and the token for its end have to fit in. "
            f"Received: shortest={shortest!r}, longest={longest!r}"
        )
