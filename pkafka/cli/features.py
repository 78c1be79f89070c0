"""pk-features: the features that brokers support and a cluster has finalized (KIP-584), as kafka-features.sh."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import click

from pkafka.cli.kit.controllers import bootstrap_controller_option, refuse_controllers
from pkafka.cli.kit.kafka_command import HELP_FLAGS, CommandError, failure
from pkafka.cli.kit.options import (
    Common,
    debug_option,
    parse_duration_ms,
    profile_option,
    text_output_option,
    timeout_option,
    version_option,
)
from pkafka.cli.kit.output import OutputFormat, View
from pkafka.cli.kit.subcommands import PrefixGroup
from pkafka.errors import ApiError
from pkafka.java.numbers import parse_integer
from pkafka.java.text import trim

if TYPE_CHECKING:
    from pkafka.clients.admin.results import FeatureUpdateKind

METADATA_VERSION: Final = "metadata.version"
_RELEASES: Final = (
    *("3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0"),
    *("3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0"),
)
METADATA_LEVELS: Final = {name: level for level, name in enumerate(_RELEASES, start=1)}
"""Levels of the feature metadata.version by the releases that brought them (KIP-778)."""

_FIRST_WITHOUT_ZOOKEEPER: Final = "3.3-IV0"


@click.group("pk-features", cls=PrefixGroup, context_settings={"help_option_names": HELP_FLAGS})
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Brokers to begin with.")
@profile_option
@bootstrap_controller_option()
@click.option("--command-config", metavar="FILE", help="Properties file for the client.")
@timeout_option
@text_output_option
@debug_option
@version_option
@click.pass_context
def main(
    ctx: click.Context,
    bootstrap_server: str | None,
    bootstrap_controller: str | None,
    command_config: str | None,
    timeout: str,
    output: str | None,
) -> None:
    """Features of a cluster: what brokers support, and what all of them have agreed on.

    A cluster in ZooKeeper mode has none. Flags of the cluster stand before the verb.
    """
    refuse_controllers(bootstrap_server, bootstrap_controller)
    form = OutputFormat(output) if output else OutputFormat.TEXT
    ctx.obj = Common(bootstrap_server, command_config, form, parse_duration_ms(timeout))


_feature_option = click.option(
    "--feature",
    "features",
    multiple=True,
    metavar="NAME=LEVEL",
    help="A feature and its level; repeat for more.",
)
_metadata_option = click.option(
    "--metadata", metavar="VERSION", help="The level of metadata.version, by a release: 3.3-IV3."
)
_dry_run_option = click.option("--dry-run", is_flag=True, help="Only check whether it would work.")


@main.command("describe")
@click.pass_obj
def describe(common: Common) -> None:
    """Describe the features of the cluster."""
    with common.admin() as admin:
        found = admin.describe_features()
    lines: list[str] = []
    rows: list[dict[str, object]] = []
    for name in sorted({*found.supported, *found.finalized}):
        supported, finalized = found.supported.get(name), found.finalized.get(name)
        low, high = (supported.min, supported.max) if supported else (0, 0)
        level = finalized.max if finalized else 0
        epoch = "-" if found.finalized_epoch is None else found.finalized_epoch
        lines.append(
            f"Feature: {name}\tSupportedMinVersion: {level_text(name, low)}\t"
            f"SupportedMaxVersion: {level_text(name, high)}\tFinalizedVersionLevel: {level_text(name, level)}\t"
            f"Epoch: {epoch}"
        )
        rows.append(
            {
                "feature": name,
                "supported_min": low,
                "supported_max": high,
                "finalized": level,
                "epoch": found.finalized_epoch,
            }
        )
    common.show(View("features", lines, rows, {"epoch": found.finalized_epoch}))


@main.command("upgrade")
@_metadata_option
@_feature_option
@_dry_run_option
@click.pass_obj
def upgrade(common: Common, metadata: str | None, features: tuple[str, ...], dry_run: bool) -> None:
    """Raise features."""
    from pkafka.clients.admin.results import FeatureUpdateKind

    wanted = _levels("upgrade", metadata, features)
    for level in wanted.values():
        if level < 1:
            raise click.UsageError(
                "The upgradeType flag should be set to SAFE_DOWNGRADE or UNSAFE_DOWNGRADE when the provided "
                f"maxVersionLevel:{level} is < 1."
            )
    _update(common, "upgrade", wanted, FeatureUpdateKind.UPGRADE, dry_run=dry_run)


@main.command("downgrade")
@_metadata_option
@_feature_option
@click.option("--unsafe", is_flag=True, help="Do it even if metadata may be lost.")
@_dry_run_option
@click.pass_obj
def downgrade(
    common: Common, metadata: str | None, features: tuple[str, ...], unsafe: bool, dry_run: bool
) -> None:
    """Lower features."""
    from pkafka.clients.admin.results import FeatureUpdateKind

    kind = FeatureUpdateKind.UNSAFE_DOWNGRADE if unsafe else FeatureUpdateKind.SAFE_DOWNGRADE
    _update(common, "downgrade", _levels("downgrade", metadata, features), kind, dry_run=dry_run)


@main.command("disable")
@click.option("--feature", "features", multiple=True, metavar="NAME", help="A feature; repeat for more.")
@click.option("--unsafe", is_flag=True, help="Do it even if metadata may be lost.")
@_dry_run_option
@click.pass_obj
def disable(common: Common, features: tuple[str, ...], unsafe: bool, dry_run: bool) -> None:
    """Lower features to level 0: the cluster does not have them any more."""
    from pkafka.clients.admin.results import FeatureUpdateKind

    if not features:
        raise click.UsageError("You must specify at least one feature to disable")
    kind = FeatureUpdateKind.UNSAFE_DOWNGRADE if unsafe else FeatureUpdateKind.SAFE_DOWNGRADE
    _update(common, "disable", dict.fromkeys(features, 0), kind, dry_run=dry_run)


def level_text(feature: str, level: int) -> str:
    """A level as Kafka writes it: by release where it is that of metadata.version."""
    if feature != METADATA_VERSION:
        return str(level)
    names = {number: name for name, number in METADATA_LEVELS.items()}
    return names.get(level, f"UNKNOWN [{level}]")


def metadata_level(text: str) -> int:
    """The level of a release, the last one of a short name (3.5).

    Raises:
        click.UsageError: it is none of KRaft.
    """
    matching = [level for name, level in METADATA_LEVELS.items() if text in (name, name.partition("-")[0])]
    if not matching:
        first = METADATA_LEVELS[_FIRST_WITHOUT_ZOOKEEPER]
        known = ", ".join(name for name, level in METADATA_LEVELS.items() if level >= first)
        raise click.UsageError(f"Unsupported metadata.version {text}. Supported metadata.version are {known}")
    return max(matching)


def _levels(verb: str, metadata: str | None, features: Iterable[str]) -> dict[str, int]:
    wanted: dict[str, int] = {}
    if metadata is not None:
        wanted[METADATA_VERSION] = metadata_level(metadata)
    for text in features:
        name, equals, level = text.partition("=")
        if not equals:
            raise click.UsageError(f"Can't parse feature=level string {text}: equals sign not found.")
        name, level = trim(name), trim(level)
        try:
            number = parse_integer(level, 16)
        except ValueError:
            raise click.UsageError(
                f"Can't parse feature=level string {text}: unable to parse {level} as a short."
            ) from None
        if name in wanted:
            raise click.UsageError(f"Feature {name} was specified more than once.")
        wanted[name] = number
    if not wanted:
        raise click.UsageError(f"You must specify at least one feature to {verb}")
    return wanted


def _update(
    common: Common, verb: str, wanted: Mapping[str, int], kind: "FeatureUpdateKind", *, dry_run: bool
) -> None:
    from pkafka.clients.admin.results import FeatureUpdate

    updates = [FeatureUpdate(name, level, kind) for name, level in wanted.items()]
    with common.admin() as admin:
        outcomes = admin.update_features(updates, validate_only=dry_run)
    lines: list[str] = []
    rows: list[dict[str, object]] = []
    for name in sorted(outcomes):
        error = outcomes[name]
        lines.append(_sentence(verb, name, wanted[name], error, dry_run=dry_run))
        rows.append(
            {
                "feature": name,
                "level": wanted[name],
                "error": failure(error),
            }
        )
    common.show(View("features", lines, rows, {"dry_run": dry_run}))
    failures = sum(1 for error in outcomes.values() if error is not None)
    if failures:
        raise CommandError(f"{failures} out of {len(outcomes)} operation(s) failed.")


def _sentence(verb: str, name: str, level: int, error: ApiError | None, *, dry_run: bool) -> str:
    target = "" if verb == "disable" else f" to {level}"
    if error is not None:
        return f"{'Can' if dry_run else 'Could'} not {verb} {name}{target}. {error.message}"
    done = f"{verb}d" if verb.endswith("e") else f"{verb}ed"
    return f"{name} {'can be' if dry_run else 'was'} {done}{target}."


if __name__ == "__main__":
    main()
