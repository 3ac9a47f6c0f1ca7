"""Terms: architectures as parse trees that print, parse, compare and hash. Pure Python."""

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.grammar.rules import Rules

_TOKEN = re.compile(r"[()]|[^()\s]+")
_FORMULA_TOKEN = re.compile(r"[(),]|[^(),\s]+")
_EXCERPT = 40


class Term:
    """An architecture, or a part of one: a node of a grammar's parse tree.

    Attributes:
        depth: how many expanded nonterminals are nested, 0 for a terminal argument.
        size: number of nodes.
    """

    __slots__ = ("nonterminal", "operator", "arguments", "depth", "size", "notes", "rules", "_hash")

    def __init__(
        self, nonterminal: str | None, operator: str, arguments: Iterable["Term | str"] = ()
    ):
        arguments = tuple(
            argument if isinstance(argument, Term) else Term(None, argument)
            for argument in arguments
        )
        if arguments and nonterminal is None:
            raise ValueError(
                "Only an expanded nonterminal has arguments. "
                f"Received: nonterminal=None, operator={operator!r}, {len(arguments)} arguments"
            )
        depth, size = 0, 1
        for argument in arguments:
            size += argument.size
            if argument.depth > depth:
                depth = argument.depth
        put = object.__setattr__
        put(self, "nonterminal", nonterminal)
        put(self, "operator", operator)
        put(self, "arguments", arguments)
        put(self, "depth", depth + (nonterminal is not None))
        put(self, "size", size)
        # What a grammar has found out about this node; no part of its identity.
        put(self, "notes", [None, None])
        put(self, "rules", None)  # those of the grammar that the whole term comes from
        put(self, "_hash", hash((nonterminal, operator, *arguments)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A term cannot be changed. Received: {name}={value!r}")

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Term):
            return NotImplemented
        pairs = [(self, other)]
        while pairs:
            a, b = pairs.pop()
            if a is b:
                continue
            if (
                hash(a) != hash(b)
                or a.size != b.size
                or a.operator != b.operator
                or a.nonterminal != b.nonterminal
                or len(a.arguments) != len(b.arguments)
            ):
                return False
            pairs.extend(zip(a.arguments, b.arguments, strict=True))
        return True

    def __str__(self) -> str:
        return self._written(lambda node: f"({node.nonterminal} {node.operator}", " ", " ")

    def __repr__(self) -> str:
        return f"Term({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return parse, (str(self),)

    def of_grammar(self, rules: Rules) -> "Term":
        """Note the rules of the grammar that this term comes from, and return it."""
        object.__setattr__(self, "rules", rules)
        return self

    def formula(self) -> str:
        """Return the term as in the paper: `Topology(argument, …)`, without nonterminals."""
        return self._written(
            lambda node: f"{node.operator}(" if node.arguments else node.operator, "", ", "
        )

    def digest(self) -> str:
        """Return eight hexadecimal digits that tell this term from others, for tables and
        titles.
        """
        return hashlib.blake2b(str(self).encode(), digest_size=4).hexdigest()

    def _written(self, opened, first, separator):
        """Text of the tree: `opened(node)`, then the arguments, then a bracket."""
        parts, stack = [], [self]
        while stack:
            node = stack.pop()
            if isinstance(node, str):
                parts.append(node)
            elif node.nonterminal is None:
                parts.append(node.operator)
            else:
                parts.append(opened(node))
                stack.append(")" if node.arguments or first else "")
                for index in range(len(node.arguments) - 1, -1, -1):
                    stack.append(node.arguments[index])
                    stack.append(separator if index else first)
        return "".join(parts)

    def nodes(self) -> Iterator["Term"]:
        """Yield every node, a node before its arguments, those from left to right."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.arguments))

    def fold(self, level: int) -> "Term":
        """Return the term down to depth `level`: the nodes there stand without their arguments."""
        validation.positive_integer(level, "level", least=0)
        stack, results = [(self, level, False)], []
        while stack:
            node, left, complete = stack.pop()
            if complete:
                count = len(node.arguments)
                arguments = results[len(results) - count :]
                del results[len(results) - count :]
                results.append(Term(node.nonterminal, node.operator, arguments))
            elif left >= node.depth or not node.arguments:
                results.append(node)
            elif left == 0:
                results.append(Term(node.nonterminal, node.operator))
            else:
                stack.append((node, left, True))
                stack.extend((a, left - 1, False) for a in reversed(node.arguments))
        return results[0]

    def substitute(self, replacements: Mapping[str, "Term"]) -> "Term":
        """Return the term with terminal symbols replaced by whole terms."""

        results, stack = {}, [self]
        while stack:
            node = stack[-1]
            missing = [a for a in node.arguments if id(a) not in results]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            new = node
            if not node.arguments:
                new = replacements.get(node.operator, node)
            elif any(results[id(a)] is not a for a in node.arguments):
                arguments = [results[id(a)] for a in node.arguments]
                new = Term(node.nonterminal, node.operator, arguments)
            results[id(node)] = new
        return results[id(self)]


@check_types
def parse(text: str, rules: Rules | None = None) -> Term:
    """Read a term from its text, in one pass, without recursion and in linear time.

    Args:
        text: what `str(term)` gives, or the notation of the paper, which `term.formula()` gives:
            `Linear2(conv, id)`. White space between symbols is free.
        rules: the grammar's `Rules`; with them every node must be one of its productions, the
            root its start symbol and the depth in its bounds. `None` reads any tree; what the
            notation of the paper applies to arguments is then a nonterminal `TERM`.

    Example:

    >>> from keras_xd.grammar import parse
    >>> parse("(S Linear2 (OP conv) id)").arguments[1].operator
    'id'
    >>> print(parse("Linear2(Residual2(conv, id, conv), fc)"))
    (TERM Linear2 (TERM Residual2 conv id conv) fc)
    >>> parse("(S Linear2")
    Traceback (most recent call last):
    ValueError: A closing bracket is missing. Received: '(S Linear2' (position 10)

    Reference:
        Schrodi et al., "Towards discovering neural architectures from scratch", 2022, section 1.
    """
    is_formula = text.lstrip()[:1] not in ("", "(")
    return _read_formula(text, rules) if is_formula else _read_tree(text, rules)


def _read_tree(text, rules):
    """Read what `str(term)` gives."""
    opened, wanted, result, end = [], None, None, 0
    # What may follow in each open node, see `Rules.following`.
    following = []
    leaves = {}  # one object for all occurrences of a term without arguments
    for match in _TOKEN.finditer(text):
        token, end = match.group(), match.end()
        if result is not None:
            raise _error("The term has ended before", text, match.start())
        if wanted is not None:
            if token in "()":
                raise _error(f"A {wanted} must follow an opening bracket", text, match.start())
            if rules is not None:
                note = _follow if opened[-1] else _open
                note(token, opened, following, rules, text, match.start())
            opened[-1].append(token)
            wanted = "nonterminal and an operator" if len(opened[-1]) < 2 else None
        elif token == "(":
            opened.append([])
            wanted = "nonterminal and an operator"
        elif token == ")":
            if rules is not None:
                _close(opened, following, rules, text, match.start())
            result = _closed(tuple(opened.pop()), leaves)
            if opened:
                opened[-1].append(result)
                result = None
        else:
            _follow(token, opened, following, rules, text, match.start())
            opened[-1].append(_closed((None, token), leaves))
    if result is None:
        rule = "A closing bracket is missing" if opened else "A term is not empty"
        raise _error(rule, text, end)
    return result


def _closed(symbols, leaves):
    """Return the term of a node's symbols, one object for all equal ones without arguments."""
    nonterminal, operator, *arguments = symbols
    if arguments:
        return Term(nonterminal, operator, arguments)
    if symbols not in leaves:
        leaves[symbols] = Term(nonterminal, operator)
    return leaves[symbols]


def _close(opened, following, rules, text, position):
    """Refuse the end of a node that must have more arguments."""
    if None not in following.pop():
        _refuse(None, opened, rules, text, position)


def _open(nonterminal, opened, following, rules, text, position):
    """Note what may follow the nonterminal of a new node, which its parent must allow."""
    if nonterminal not in rules.following:
        expected = [rules.start]
        if len(opened) > 1:
            expected = [symbol for symbol in following[-1] if symbol is not None]
        rule = f"The grammar has no such nonterminal; expected {_alternatives(expected, rules)}"
        raise _error(rule, text, position)
    if len(opened) > rules.max_depth:
        raise _error(f"The depth must be at most {rules.max_depth}", text, position)
    if len(opened) > 1:
        if nonterminal not in following[-1]:
            _refuse(nonterminal, opened[:-1], rules, text, position)
        following[-1] = following[-1][nonterminal]
    elif nonterminal != rules.start:
        raise _error(f"The term must begin with {rules.start}", text, position)
    following.append(rules.following[nonterminal])


def _follow(symbol, opened, following, rules, text, position):
    """Note what may follow an operator or terminal argument, which the node must allow."""
    if rules is None:
        return
    expanded = len(opened[-1]) > 1 and symbol in rules.following
    if symbol not in following[-1] or expanded:
        _refuse(symbol, opened, rules, text, position)
    following[-1] = following[-1][symbol]


def _refuse(symbol, opened, rules, text, position):
    """Raise the error that says what was expected in the last of the open nodes."""
    node = opened[-1]
    before = [part if isinstance(part, str) else part.nonterminal or part.operator for part in node]
    possible = rules.following
    for part in before:
        possible = possible[part]
    expected = _alternatives(possible, rules)
    if len(node) == 1:
        rule = f"{node[0]} has no production with this operator; expected {expected}"
    elif symbol is None:
        rule = f"No production {_outline(before)}; expected {expected}"
    else:
        rule = f"Argument {len(node) - 1} of {node[0]} {node[1]} must be {expected}"
    raise _error(rule, text, position)


def _read_formula(text, rules):
    """Read a term in the paper's notation; the grammar says which nonterminals its parts are."""
    terminals = rules and rules.terminals()
    widest = rules and max(len(p.arguments) for p in itertools.chain(*rules.productions.values()))
    # The operator, position and readings of the arguments of open parts, and of the last one.
    opened, part, before, leaves = [], None, "(", {}
    for match in _FORMULA_TOKEN.finditer(text):
        token, position = match.group(), match.start()
        if before in "(,":
            if token in "(),":
                raise _error("A symbol must stand here", text, position)
            if rules and token not in terminals:
                raise _error("The grammar has no such terminal", text, position)
            part = (token, position, [])
        elif token == "(" and before != ")":
            opened.append(part)
            if rules and len(opened) > rules.max_depth:
                raise _error(f"The depth must be at most {rules.max_depth}", text, position)
        elif token in ",)" and opened:
            if rules and len(opened[-1][2]) == widest:
                raise _error(f"An operator has at most {widest} arguments", text, position)
            opened[-1][2].append(_readings(*part, rules, len(opened), leaves, text))
            part = opened.pop() if token == ")" else None
        else:
            expected = "A comma or a bracket must stand here" if opened else "The term has ended"
            raise _error(expected, text, position)
        before = token
    if opened or before in "(,":
        raise _error("A closing bracket is missing", text, len(text))
    readings = _readings(*part, rules, 0, leaves, text)
    start = rules.start if rules else None
    if start not in readings:
        found = " or ".join(sorted(readings))
        raise _error(f"The term must be one of {start}; it is one of {found}", text, 0)
    first, *others = readings[start]
    if others:
        a, b = _difference(first, others[0])
        raise _error(f"The term has more than one reading, {a} or {b}", text, 0)
    return first


def _readings(operator, position, arguments, rules, level, leaves, text):
    """Return the first two terms of each symbol that a part may be, with `level` parts around."""
    # A leaf is a terminal, or a nonterminal where the depth bound leaves room for one.
    key = (operator, rules is None or level < rules.max_depth)
    if not arguments and key in leaves:
        return leaves[key]
    if rules is None:
        chosen = [readings[None][0] for readings in arguments]
        found = {None: [Term("TERM" if arguments else None, operator, chosen)]}
        return found if arguments else leaves.setdefault(key, found)
    readings = {} if arguments else {operator: [Term(None, operator)]}
    productions = rules.by_operator.get(operator, ())
    for production in productions if key[1] else ():
        if len(production.arguments) == len(arguments):
            pairs = zip(arguments, production.arguments, strict=True)
            choices = itertools.product(*[known.get(symbol, ()) for known, symbol in pairs])
            chosen = itertools.islice(choices, 2)
            terms = [Term(production.nonterminal, operator, choice) for choice in chosen]
            if terms:
                readings.setdefault(production.nonterminal, []).extend(terms)
    if not readings:
        known = " or ".join(f"{p.nonterminal} -> {p}" for p in productions)
        rule = f"No production fits in a depth of {rules.max_depth}; expected {known}"
        raise _error(rule if known else "A terminal has no arguments", text, position)
    readings = {symbol: terms[:2] for symbol, terms in readings.items()}
    if not arguments:
        leaves[key] = readings
    return readings


def _difference(a, b):
    """Return the first parts of two terms that are different productions, with their arguments."""
    pairs = [(a, b)]
    while pairs:
        a, b = pairs.pop()
        if [part.nonterminal for part in a.arguments] != [part.nonterminal for part in b.arguments]:
            break
        pairs.extend(reversed(list(zip(a.arguments, b.arguments, strict=True))))
    return a.fold(1), b.fold(1)


def _alternatives(symbols, rules):
    """What may stand at a place, as it is written in a term."""
    names = [
        "a closing bracket" if s is None else f"({s} …)" if s in rules.following else s
        for s in symbols
    ]
    return " or ".join(names)


def _outline(symbols):
    more = [f"… ({len(symbols) - 2} arguments)"] if len(symbols) > 10 else []
    return _shortened(" ".join([f"{symbols[0]} -> {symbols[1]}", *symbols[2:10], *more]), 200)


def _error(rule, text, position):
    start = max(0, position - _EXCERPT // 2)
    part = text[start : position + _EXCERPT // 2]
    before, after = "…" * (start > 0), "…" * (position + _EXCERPT // 2 < len(text))
    rule = _shortened(rule, 240)
    return ValueError(f"{rule}. Received: {before}{part!r}{after} (position {position})")


def _shortened(text, length=2 * _EXCERPT):
    return text if len(text) <= length else f"{text[:length]}…"
