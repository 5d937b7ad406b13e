"""Configuration files as axes of a study: which of a launcher, and one value of any yaml, toml or json file.

    --config a.yaml,b.yaml                     the launcher's own file: a setting for each
    --vary-file conf.yaml:fsdp.reshard=true,false      a copy of conf.yaml per run, with that one value changed

The copy lies in the run's folder and takes the file's place among the arguments; the file itself is never touched.
Comments and order stay: in yaml the value alone is replaced in the text, tomlkit edits toml, json has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from paceline.core.errors import UsageError
from paceline.records import Point, Study

__all__ = [
    "CONFIG",
    "copies",
    "edited",
    "file_key",
    "is_file_key",
    "launcher_config",
    "own_args",
    "parsed",
    "vary_file",
]

CONFIG = "launcher config"
SUFFIXES = (".yaml", ".yml", ".toml", ".json")
_EXAMPLE = "--vary-file conf.yaml:fsdp.reshard=true,false"


def vary_file(text: str) -> tuple[str, tuple[str, ...]]:
    """`conf.yaml:fsdp.reshard=true,false` as the key that stands among varied flags, and its values."""
    key, sign, values = text.partition("=")
    if not sign or not values or not is_file_key(key):
        raise UsageError(
            f"--vary-file {text!r} is not FILE:KEY=V1,V2 of a yaml, toml or json file", hint=_EXAMPLE
        )
    return key, tuple(dict.fromkeys(values.split(",")))


def is_file_key(flag: str) -> bool:
    """Whether a varied key is a place in a file, not a flag of the script."""
    path, sign, name = flag.rpartition(":")
    return bool(sign and name) and not flag.startswith("-") and path.endswith(SUFFIXES)


def file_key(flag: str) -> tuple[str, str]:
    """The file, and the dotted key in it."""
    path, _, key = flag.rpartition(":")
    return path, key


def own_args(args: Sequence[str], paths: Mapping[str, str]) -> tuple[str, ...]:
    """The args with each of these files replaced by its copy, also as the value of `--flag=FILE`."""
    changed = []
    for arg in args:
        flag, sign, value = arg.partition("=")
        if arg in paths:
            changed.append(paths[arg])
        elif sign and value in paths:
            changed.append(f"{flag}={paths[value]}")
        else:
            changed.append(arg)
    return tuple(changed)


def launcher_config(point: Point) -> str | None:
    """The launcher's file at this point."""
    return dict(point.varied).get(CONFIG)


def copies(point: Point, trial_dir: str) -> dict[str, str]:
    """The files that this point varies, and where their copies lie."""
    files = [file_key(flag)[0] for flag, _ in point.varied if is_file_key(flag)]
    return {
        path: f"{trial_dir}/config/{i}-{path.rpartition('/')[2]}"
        for i, path in enumerate(dict.fromkeys(files))
    }


def checked_use(study: Study) -> None:
    """Refuse a file that nothing passes on, and a configuration that the launcher does not read."""
    workload = study.workload
    configs = dict(study.vary).get(CONFIG, ())
    if configs and workload.start not in ("accelerate", "deepspeed"):
        raise UsageError(
            f"--config {','.join(configs)} is read by accelerate and deepspeed; {workload.start} starts these workers",
            hint="--launcher accelerate --config a.yaml",
        )
    for flag, _ in study.vary:
        path = file_key(flag)[0] if is_file_key(flag) else None
        if (
            path is not None
            and path not in configs
            and own_args(workload.args, {path: "\0"}) == workload.args
        ):
            raise UsageError(
                f"{path} is to be varied, and nothing passes it to {workload.name}",
                hint=f"name it among the script's arguments: -- --config {path}",
            )


def parsed(text: str, path: str) -> Any:
    """What a file holds; a UsageError where it does not parse."""
    try:
        if path.endswith(".json"):
            return json.loads(text)
        if path.endswith(".toml"):
            import tomlkit

            return tomlkit.parse(text)
        import yaml

        return yaml.safe_load(text)
    except Exception as problem:  # each library has its own errors
        said = " ".join(str(problem).split())
        raise UsageError(f"{path} cannot be read: {said[:200]}", hint="correct the file") from None


def edited(text: str, path: str, key: str, value: str) -> str:
    """The text of this file with one value changed; a UsageError where it has no such key."""
    parts = key.split(".")
    found = _at(parsed(text, path), parts, path)
    if isinstance(found, dict | list):
        raise UsageError(f"{key} in {path} is no single value", hint=f"name one below it: {path}:{key}.NAME")
    if path.endswith(".json"):
        data = json.loads(text)
        _put(data, parts, _plain(value))
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    if path.endswith(".toml"):
        import tomlkit

        document = tomlkit.parse(text)
        _put(document, parts, _plain(value))
        return tomlkit.dumps(document)
    return _yaml_edited(text, parts, value)


def _at(data: Any, parts: Sequence[str], path: str) -> Any:
    for depth, part in enumerate(parts):
        if isinstance(data, list) and part.isdigit() and int(part) < len(data):
            data = data[int(part)]
        elif isinstance(data, dict) and part in data:
            data = data[part]
        else:
            known = [str(name) for name in data] if isinstance(data, dict) else []
            alike = get_close_matches(part, known, n=1) or known[:5]
            where = f" below {'.'.join(parts[:depth])}" if depth else ""
            raise UsageError(
                f"{path} has no key {'.'.join(parts)}", hint=f"it has{where}: {', '.join(alike) or 'no keys'}"
            )
    return data


def _put(data: Any, parts: Sequence[str], value: object) -> None:
    *path, last = parts
    for part in path:
        data = data[int(part)] if isinstance(data, list) else data[part]
    data[int(last) if isinstance(data, list) else last] = value


def _plain(value: str) -> object:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _yaml_edited(text: str, parts: Sequence[str], value: str) -> str:
    """The scalar's own characters are replaced; all others stay."""
    import yaml

    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for part in parts:
        if isinstance(node, yaml.SequenceNode):
            node = node.value[int(part)]
        else:
            node = next(item for name, item in node.value if name.value == part)
    return text[: node.start_mark.index] + value + text[node.end_mark.index :]
