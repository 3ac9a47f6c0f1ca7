"""The settings of the papers' experiments, read from `paper_settings.toml`."""

import pathlib
import tomllib
from collections.abc import Mapping
from typing import Any

FILE = pathlib.Path(__file__).with_suffix(".toml")


def _experiment(paper: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the settings of an experiment, with where each is from and those not stated."""
    result: dict[str, Any] = {"sources": {}, "unstated": ()}
    own = dict(paper[name])
    for other in own.pop("like", ()):
        taken = _experiment(paper, other)
        sources = {**result["sources"], **taken["sources"]}
        result |= {**taken, "sources": sources, "unstated": taken["unstated"] or result["unstated"]}
    if "unstated" in own:
        result["unstated"] = tuple(own.pop("unstated"))
    for source, settings in own.items():
        result |= _plain(settings)
        result["sources"] |= dict.fromkeys(settings, source)
    return result


def _plain(value: Any) -> Any:
    """Return a value of the file with tuples for lists, numbers for keys, `None` for `{}`."""
    if isinstance(value, dict):
        found = {int(k) if k.isdecimal() else k: _plain(v) for k, v in value.items()}
        return found or None
    return tuple(map(_plain, value)) if isinstance(value, list) else value


PAPERS = {
    name: {key: _experiment(paper, key) for key in paper if not key.startswith("_")}
    for name, paper in tomllib.loads(FILE.read_text("utf-8")).items()
}
